package openstack

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"proxylab/lab/lbaas/octavia"
)

// query is what a list request asks for.
type query struct {
	filters  map[string][]string
	fields   []string
	keys     []string // sort
	down     []bool
	limit    int // 0: all
	marker   string
	backward bool
}

// parseQuery reads a query string as Neutron does: sort_key and sort_dir, limit, marker and page_reverse; the rest are filters.
func parseQuery(values url.Values) (query, error) {
	q := query{filters: map[string][]string{}}
	for key, v := range values {
		switch key {
		case "fields":
			q.fields = append(q.fields, v...)
		case "sort_key":
			q.keys = v
		case "sort_dir":
			for _, dir := range v {
				q.down = append(q.down, strings.EqualFold(dir, "desc"))
			}
		case "limit":
			n, err := strconv.Atoi(v[0])
			if err != nil || n < 0 {
				return q, badRequest("Bad limit request: Limit must be an integer 0 or greater and not '%s'", v[0])
			}
			q.limit = n
		case "marker":
			q.marker = v[0]
		case "page_reverse":
			q.backward = boolSpelled[strings.ToLower(v[0])]
		default:
			q.filters[key] = v
		}
	}
	return q, nil
}

// apply picks, sorts and cuts. more says that there is another page.
func (q query) apply(all []item) (page []item, more bool, err error) {
	page = slices.DeleteFunc(all, func(it item) bool { return !q.matches(it) })
	if len(q.keys) > 0 {
		slices.SortStableFunc(page, q.compare)
	}
	if q.backward {
		slices.Reverse(page)
	}
	if q.marker != "" {
		i := slices.IndexFunc(page, func(it item) bool { return it.text("id") == q.marker })
		if i < 0 {
			return nil, false, badRequest("Invalid marker: %s", q.marker)
		}
		page = page[i+1:]
	}
	if q.limit > 0 && len(page) > q.limit {
		page, more = page[:q.limit], true
	}
	if q.backward {
		slices.Reverse(page)
	}
	return page, more, nil
}

func (q query) compare(a, b item) int {
	for i, key := range q.keys {
		var c int
		if x, ok := number(a[key]); ok {
			y, _ := number(b[key])
			c = cmp.Compare(x, y)
		} else {
			c = cmp.Compare(fmt.Sprint(a[key]), fmt.Sprint(b[key]))
		}
		if i < len(q.down) && q.down[i] {
			c = -c
		}
		if c != 0 {
			return c
		}
	}
	return 0
}

func (q query) matches(it item) bool {
	for key, values := range q.filters {
		if !matches(it, key, values) {
			return false
		}
	}
	return true
}

// matches says whether an attribute has one of the values. What an item does not have at all does not exclude it, as in a
// Neutron that does not validate filters.
func matches(it item, key string, values []string) bool {
	switch key {
	case "tags", "tags-any", "not-tags", "not-tags-any":
		return octavia.Tagged(it.texts("tags"), key, strings.Split(strings.Join(values, ","), ","))
	case "fixed_ips":
		return slices.ContainsFunc(values, func(v string) bool { return hasFixedIP(it, v) })
	}
	have, ok := it[key]
	if !ok {
		return true
	}
	if l, ok := have.([]any); ok {
		return slices.ContainsFunc(l, func(e any) bool { return slices.Contains(values, fmt.Sprint(e)) })
	}
	return slices.ContainsFunc(values, func(v string) bool { return same(have, v) })
}

func same(have any, wanted string) bool {
	switch h := have.(type) {
	case nil:
		return wanted == "" || wanted == "null" || wanted == "None"
	case bool:
		b, ok := boolSpelled[strings.ToLower(wanted)]
		return ok && b == h
	}
	return fmt.Sprint(have) == wanted
}

// hasFixedIP takes a filter such as ip_address=10.0.0.1.
func hasFixedIP(it item, filter string) bool {
	key, value, _ := strings.Cut(filter, "=")
	for _, ip := range it.list("fixed_ips") {
		if key == "ip_address_substr" && strings.Contains(ip.text("ip_address"), value) || ip.text(key) == value {
			return true
		}
	}
	return false
}

// pick keeps the fields that were asked for.
func (q query) pick(it item) item {
	if len(q.fields) == 0 {
		return it
	}
	out := item{}
	for _, f := range q.fields {
		if v, ok := it[f]; ok {
			out[f] = v
		}
	}
	return out
}

package octavia

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// row is an object in a list, with its answer.
type row struct {
	o     *object
	shown fields
}

// list answers GET on a collection: filters, tags, sorting, pages, fields.
func (s *Service) list(c *call) (*answer, error) {
	k := s.kinds[c.kind]
	rows, err := s.rows(c, k)
	if err != nil {
		return nil, err
	}
	keys, err := s.sortKeys(c.query, k)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(rows, func(a, b row) int { return compareRows(a, b, keys) })
	rows, links, err := s.page(c, k, rows, keys)
	if err != nil {
		return nil, err
	}
	out := make([]fields, len(rows))
	for i, r := range rows {
		out[i] = r.shown.only(fieldsOf(c.query))
	}
	return &answer{http.StatusOK, fields{{k.plural, out}, {k.plural + "_links", links}}}, nil
}

// rows gives the objects that the caller may see and asks for.
func (s *Service) rows(c *call, k *kind) ([]row, error) {
	project, err := s.listScope(c, k)
	if err != nil {
		return nil, err
	}
	keep, err := s.filter(c, k)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var from []*object
	switch lb := c.query.Get("loadbalancer_id"); {
	case c.parent != "":
		from = s.db.below(c.parent, k.name)
	case lb != "" && k.parent == kindBalancer:
		from = s.db.below(lb, k.name)
	default:
		from = s.db.all(k.name)
	}
	rows := []row{}
	for _, o := range from {
		if project != "" && o.Project != project {
			continue
		}
		if keep(o) {
			rows = append(rows, row{o, s.render(o)})
		}
	}
	return rows, nil
}

func (s *Service) listScope(c *call, k *kind) (string, error) {
	switch {
	case k.name == kindFlavorProfile || k.name == kindZoneProfile:
		return "", c.who.permit(actAdmin, "")
	case k.flat:
		return "", c.who.permit(actReadAny, "")
	case c.parent != "":
		s.mu.Lock()
		defer s.mu.Unlock()
		parent := s.db.any(c.parent)
		if parent == nil { // it has gone since the path was looked at
			return "", notFound(s.kinds[k.parent].title, c.parent)
		}
		return "", c.who.permit(actRead, parent.Project)
	}
	return c.who.scope(c.query.Get("project_id"))
}

func fieldsOf(q url.Values) []string {
	var out []string
	for _, v := range q["fields"] {
		out = append(out, strings.Split(v, ",")...)
	}
	return out
}

// filter reads what a query asks for. Unknown keys and doubled ones are refused.
// The filter needs the lock.
func (s *Service) filter(c *call, k *kind) (func(*object) bool, error) {
	var tests []func(*object) bool
	for key, values := range c.query {
		switch key {
		case "limit", "marker", "sort", "sort_key", "sort_dir", "fields", "page_reverse", "project_id":
			continue
		case "tags", "tags-any", "not-tags", "not-tags-any":
			if slices.Contains(k.show, "tags") {
				tests = append(tests, tagFilter(key, values))
				continue
			}
		}
		if len(values) != 1 || !s.filterable(k, key) {
			return nil, fault(http.StatusBadRequest, "One or more arguments are either duplicate or invalid")
		}
		tests = append(tests, func(o *object) bool { return matches(s.filterValue(o, key), values[0]) })
	}
	return func(o *object) bool {
		for _, t := range tests {
			if !t(o) {
				return false
			}
		}
		return true
	}, nil
}

func (s *Service) filterable(k *kind, key string) bool {
	switch key {
	case "loadbalancer_id":
		return k.name == kindListener || k.name == kindPool
	case "pool_id":
		return k.name == kindMonitor || k.name == kindMember
	case "l7policy_id":
		return k.name == kindRule
	}
	return slices.Contains(k.show, key)
}

func (s *Service) filterValue(o *object, key string) any {
	switch key {
	case "loadbalancer_id":
		return o.Balancer
	case "pool_id", "l7policy_id":
		return o.Parent
	}
	v, _ := s.value(o, key)
	return v
}

func matches(have any, want string) bool {
	if b, ok := have.(bool); ok {
		w, ok := pyBool(want)
		return ok && w == b
	}
	return have != nil && pyStr(have) == want
}

func tagFilter(mode string, values []string) func(*object) bool {
	var want []string
	for _, v := range values {
		want = append(want, strings.Split(v, ",")...)
	}
	return func(o *object) bool { return Tagged(o.list("tags"), mode, want) }
}

// Tagged says whether tags are as a filter wants them, in the words of all of OpenStack: "tags" all of these, "tags-any" one,
// "not-tags" not all, "not-tags-any" none.
func Tagged(have []string, filter string, want []string) bool {
	found := 0
	for _, w := range want {
		if slices.Contains(have, w) {
			found++
		}
	}
	switch filter {
	case "tags":
		return found == len(want)
	case "tags-any":
		return found > 0
	case "not-tags":
		return found < len(want)
	}
	return found == 0
}

// sortKey is one of those a list is ordered by.
type sortKey struct {
	name string
	down bool
}

func (s *Service) sortKeys(q url.Values, k *kind) ([]sortKey, error) {
	var keys []sortKey
	add := func(name, dir string) error {
		dir = strings.ToLower(dir)
		if dir != "asc" && dir != "desc" {
			return fault(http.StatusBadRequest, "Supplied sort direction '%s' is not valid.", dir)
		}
		if !slices.Contains(k.show, name) {
			return fault(http.StatusBadRequest, "Supplied sort key '%s' is not valid.", name)
		}
		keys = append(keys, sortKey{name, dir == "desc"})
		return nil
	}
	if sort := q.Get("sort"); sort != "" {
		for _, one := range strings.Split(sort, ",") {
			name, dir, given := strings.Cut(one, ":")
			if !given {
				dir = "asc"
			}
			if err := add(name, dir); err != nil {
				return nil, err
			}
		}
	} else if sort := q.Get("sort_key"); sort != "" {
		dirs := strings.Split(q.Get("sort_dir"), ",")
		for i, name := range strings.Split(sort, ",") {
			dir := "asc"
			if i < len(dirs) && dirs[i] != "" {
				dir = dirs[i]
			}
			if err := add(name, dir); err != nil {
				return nil, err
			}
		}
	}
	return keys, nil
}

// compareRows orders by the keys, then by creation.
func compareRows(a, b row, keys []sortKey) int {
	for _, k := range keys {
		if c := compareValues(a.shown.get(k.name), b.shown.get(k.name)); c != 0 {
			if k.down {
				return -c
			}
			return c
		}
	}
	return bySeq(a.o, b.o)
}

// compareValues puts a null first, numbers by size, all else as text.
func compareValues(x, y any) int {
	xn, xok := x.(int)
	yn, yok := y.(int)
	if xok && yok {
		return xn - yn
	}
	text := func(v any) string {
		if v == nil {
			return ""
		}
		return pyStr(v)
	}
	return strings.Compare(text(x), text(y))
}

// page cuts a sorted list where the query says, and links to the pages beside it.
func (s *Service) page(c *call, k *kind, rows []row, keys []sortKey) ([]row, []fields, error) {
	limit, _ := strconv.Atoi(c.query.Get("limit")) // checked before; 0 or below and "infinite" mean all
	if limit < 1 {
		limit = len(rows) + 1
	}
	marker := c.query.Get("marker")
	back, _ := pyBool(c.query.Get("page_reverse"))
	if marker != "" {
		at, err := s.markerRow(k, marker)
		if err != nil {
			return nil, nil, err
		}
		split := slices.IndexFunc(rows, func(r row) bool { return compareRows(r, at, keys) >= 0 })
		if split < 0 {
			split = len(rows)
		}
		if back {
			rows = rows[max(0, split-limit):split]
		} else {
			for split < len(rows) && compareRows(rows[split], at, keys) == 0 {
				split++
			}
			rows = rows[split:]
		}
	}
	rows = rows[:min(limit, len(rows))]
	return rows, pageLinks(c, rows, limit, marker), nil
}

func (s *Service) markerRow(k *kind, marker string) (row, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.db.get(k.name, marker)
	if o == nil {
		return row{}, fault(http.StatusBadRequest, "Supplied pagination marker '%s' is not valid.", marker)
	}
	return row{o, s.render(o)}, nil
}

// pageLinks are absolute. Octavia gives a next one for every full page, also for the last.
func pageLinks(c *call, rows []row, limit int, marker string) []fields {
	links := []fields{}
	if len(rows) == 0 {
		return links
	}
	query := fmt.Sprintf("limit=%d", limit)
	for _, key := range []string{"sort", "sort_key"} {
		if v := c.query.Get(key); v != "" {
			query += "&" + key + "=" + v
		}
	}
	link := func(rel, more string) {
		links = append(links, fields{{"href", selfURL(c.r) + "?" + query + more}, {"rel", rel}})
	}
	if marker != "" {
		link("previous", "&marker="+rows[0].o.ID+"&page_reverse=True")
	}
	if len(rows) >= limit {
		link("next", "&marker="+rows[len(rows)-1].o.ID)
	}
	return links
}

// selfURL is what the client has asked for, without query: the path is the one before any prefix was taken off.
func selfURL(r *http.Request) string {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	if !strings.HasPrefix(path, "/") {
		path = r.URL.Path
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + r.Host + path
}

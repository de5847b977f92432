package openstack

import (
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // for names that stay the same, not for secrets
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
)

// item is a resource: what its JSON says. An item that is in a table is never changed, but replaced.
type item map[string]any

// text is an attribute that is a string; "" where it is none.
func (i item) text(key string) string {
	s, _ := i[key].(string)
	return s
}

func (i item) flag(key string) bool {
	b, _ := i[key].(bool)
	return b
}

// list is an attribute that is a list of objects.
func (i item) list(key string) []item {
	var out []item
	switch l := i[key].(type) {
	case []any:
		for _, e := range l {
			switch m := e.(type) {
			case map[string]any:
				out = append(out, m)
			case item:
				out = append(out, m)
			}
		}
	case []item:
		return l
	}
	return out
}

// texts is an attribute that is a list of strings.
func (i item) texts(key string) []string {
	var out []string
	switch l := i[key].(type) {
	case []any:
		for _, e := range l {
			if s, ok := e.(string); ok {
				out = append(out, s)
			}
		}
	case []string:
		return l
	}
	return out
}

// with is a copy with other values.
func (i item) with(values item) item {
	out := maps.Clone(i)
	maps.Copy(out, values)
	return out
}

func format(b []byte) string {
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// newID is a random UUID.
func newID() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // it never fails
	return format(b)
}

// StableID is the UUID of something that is there from the beginning: the same at every start.
func StableID(kind, name string) string {
	sum := sha1.Sum([]byte("proxylab/" + kind + "/" + name)) //nolint:gosec // see above
	return format(sum[:])
}

// stableHex is the same in Keystone's notation.
func stableHex(kind, name string) string {
	sum := sha1.Sum([]byte("proxylab/" + kind + "/" + name)) //nolint:gosec // see above
	return hex.EncodeToString(sum[:16])
}

func newHex() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // it never fails
	return hex.EncodeToString(b)
}

// table is the items of a kind, in the order in which they came.
type table struct {
	items map[string]item
	order []string
}

func newTable() *table { return &table{items: map[string]item{}} }

func (t *table) put(it item) {
	id := it.text("id")
	if _, ok := t.items[id]; !ok {
		t.order = append(t.order, id)
	}
	t.items[id] = it
}

func (t *table) remove(id string) {
	if _, ok := t.items[id]; !ok {
		return
	}
	delete(t.items, id)
	if i := slices.Index(t.order, id); i >= 0 {
		t.order = slices.Delete(t.order, i, i+1)
	}
}

// all goes through the items in order.
func (t *table) all(yield func(item) bool) {
	for _, id := range t.order {
		if !yield(t.items[id]) {
			return
		}
	}
}

// where lists the items that ok likes.
func (t *table) where(ok func(item) bool) []item {
	var out []item
	for it := range t.all {
		if ok(it) {
			out = append(out, it)
		}
	}
	return out
}

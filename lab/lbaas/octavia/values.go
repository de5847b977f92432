package octavia

import (
	"encoding/json"
	"sort"
	"strconv"
	"strings"
)

// field is one key of an answer; the order is Octavia's.
type field struct {
	key   string
	value any
}

type fields []field

// encode appends an answer to b as JSON. What is not made of fields is left to encoding/json.
func encode(b []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case fields:
		return v.encode(b)
	case []fields:
		b = append(b, '[')
		for i, one := range v {
			if i > 0 {
				b = append(b, ',')
			}
			var err error
			if b, err = one.encode(b); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	case nil:
		return append(b, "null"...), nil
	case bool:
		return strconv.AppendBool(b, v), nil
	case int:
		return strconv.AppendInt(b, int64(v), 10), nil
	}
	data, err := json.Marshal(v)
	return append(b, data...), err
}

func (f fields) encode(b []byte) ([]byte, error) {
	b = append(b, '{')
	for i, one := range f {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), one.key...), '"', ':') // keys are plain words
		var err error
		if b, err = encode(b, one.value); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func (f fields) get(key string) any {
	for _, one := range f {
		if one.key == key {
			return one.value
		}
	}
	return nil
}

// only keeps the keys that are asked for; what does not exist is ignored.
func (f fields) only(keys []string) fields {
	if len(keys) == 0 {
		return f
	}
	kept := fields{}
	for _, one := range f {
		for _, k := range keys {
			if one.key == k {
				kept = append(kept, one)
				break
			}
		}
	}
	return kept
}

// pyStr writes a value as Python's str does, pyRepr as its repr: error messages quote what was sent that way.
func pyStr(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return pyRepr(v)
}

func pyRepr(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case string:
		quoted := strconv.Quote(v)
		inner := strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
		return "'" + strings.ReplaceAll(inner, "'", `\'`) + "'"
	case json.Number:
		return v.String()
	case int:
		return strconv.Itoa(v)
	case []string:
		parts := make([]string, len(v))
		for i, one := range v {
			parts[i] = pyRepr(one)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case []any:
		parts := make([]string, len(v))
		for i, one := range v {
			parts[i] = pyRepr(one)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case map[string]any:
		return pyDict(v)
	}
	return "None"
}

// pyDict sorts the keys: a decoded object has lost the order in which it was sent.
func pyDict(m map[string]any) string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	parts := make([]string, len(keys))
	for i, k := range keys {
		parts[i] = pyRepr(k) + ": " + pyRepr(m[k])
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// The attributes of an object hold string, bool, int, json.Number (with a fraction), []string, map[string]any and nil.
// restore brings what was read from JSON, with all numbers as json.Number, back to these.
func restore(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := strconv.Atoi(v.String()); err == nil {
			return n
		}
		return v
	case []any:
		list := make([]string, 0, len(v))
		for _, one := range v {
			if s, ok := one.(string); ok {
				list = append(list, s)
			}
		}
		return list
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, one := range v {
			m[k] = restore(one)
		}
		return m
	}
	return v
}

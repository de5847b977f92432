package openstack

import (
	"fmt"
	"math"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// attr is an attribute of a kind that clients may give.
type attr struct {
	name     string
	check    check
	value    any  // where a create leaves it out
	required bool // in a create
	fixed    bool // an update may not change it
	admin    bool // only an administrator may give it
}

// check turns a value from a request into the one that is kept, or says what is wrong with it.
type check func(v any) (any, error)

var (
	uuidShape   = regexp.MustCompile(`^[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}$`)
	boolSpelled = map[string]bool{"true": true, "1": true, "yes": true, "on": true, "false": false, "0": false, "no": false, "off": false}
)

func isText(most int) check {
	return func(v any) (any, error) {
		s, ok := v.(string)
		switch {
		case !ok:
			return nil, fmt.Errorf("'%v' is not a valid string", v)
		case len(s) > most:
			return nil, fmt.Errorf("'%s' exceeds maximum length of %d", s, most)
		}
		return s, nil
	}
}

func isBool(v any) (any, error) {
	if b, ok := v.(bool); ok {
		return b, nil
	}
	if b, ok := boolSpelled[strings.ToLower(fmt.Sprint(v))]; ok {
		return b, nil
	}
	return nil, fmt.Errorf("'%v' cannot be converted to boolean", v)
}

func isInt(least, most int) check {
	return func(v any) (any, error) {
		n, ok := number(v)
		switch {
		case !ok:
			return nil, fmt.Errorf("'%v' is not an integer", v)
		case n < least:
			return nil, fmt.Errorf("'%v' is too small - must be at least '%d'", v, least)
		case n > most:
			return nil, fmt.Errorf("'%v' is too large - must be no larger than '%d'", v, most)
		}
		return n, nil
	}
}

// number reads a whole number, also one in quotes.
func number(v any) (int, bool) {
	switch n := v.(type) {
	case int:
		return n, true
	case float64:
		return int(n), n == math.Trunc(n) && math.Abs(n) < 1e15
	case string:
		i, err := strconv.Atoi(n)
		return i, err == nil
	}
	return 0, false
}

func isUUID(v any) (any, error) {
	if s, ok := v.(string); ok && uuidShape.MatchString(s) {
		return s, nil
	}
	return nil, fmt.Errorf("'%v' is not a valid UUID", v)
}

func isAddr(v any) (any, error) {
	s, _ := v.(string)
	a, err := netip.ParseAddr(s)
	if err != nil {
		return nil, fmt.Errorf("'%v' is not a valid IP address", v)
	}
	return a.String(), nil
}

// isPrefix takes a CIDR, or an address that stands for itself.
func isPrefix(v any) (any, error) {
	s, _ := v.(string)
	if p, err := netip.ParsePrefix(s); err == nil {
		return p.Masked().String(), nil
	}
	if a, err := netip.ParseAddr(s); err == nil {
		return netip.PrefixFrom(a, a.BitLen()).String(), nil
	}
	return nil, fmt.Errorf("'%v' is not a valid IP subnet", v)
}

func isOneOf(values ...any) check {
	return func(v any) (any, error) {
		if slices.Contains(values, v) {
			return v, nil
		}
		return nil, fmt.Errorf("'%v' is not in %v", v, values)
	}
}

// orNull takes null too.
func orNull(c check) check {
	return func(v any) (any, error) {
		if v == nil {
			return nil, nil
		}
		return c(v)
	}
}

const longestList = 256 // entries of an attribute, so that a request cannot make the state grow without bound

func isList(c check) check {
	return func(v any) (any, error) {
		if v == nil {
			return []any{}, nil
		}
		l, ok := v.([]any)
		if !ok {
			return nil, fmt.Errorf("'%v' is not a list", v)
		}
		if len(l) > longestList {
			return nil, fmt.Errorf("it has more than %d entries", longestList)
		}
		out := make([]any, len(l))
		for i, e := range l {
			var err error
			if out[i], err = c(e); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
}

// isObject takes an object with some of the keys given.
func isObject(keys map[string]check) check {
	return func(v any) (any, error) {
		m, ok := v.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("'%v' is not a dictionary", v)
		}
		out := map[string]any{}
		for k, e := range m {
			c, known := keys[k]
			if !known {
				return nil, fmt.Errorf("Unexpected key '%s'", k) //nolint:staticcheck // Neutron's words
			}
			var err error
			if out[k], err = c(e); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
}

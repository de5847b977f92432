package octavia

import (
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
)

// check turns a decoded JSON value into one of an attribute, or says why it cannot be one; the words are wsme's.
// It never gets a null.
type check func(any) (any, error)

// refusal says why a value is not one.
type refusal string

func (r refusal) Error() string { return string(r) }

func wrongType(want string, v any) error {
	have := "str"
	switch v := v.(type) {
	case bool:
		have = "bool"
	case json.Number:
		have = "int"
		if strings.ContainsAny(v.String(), ".eE") {
			have = "float"
		}
	case []any:
		have = "list"
	case map[string]any:
		have = "dict"
	}
	return refusal(fmt.Sprintf("Wrong type. Expected '<class '%s'>', got '<class '%s'>'", want, have))
}

func text(longest int) check {
	return func(v any) (any, error) {
		s, ok := v.(string)
		if !ok {
			return nil, wrongType("str", v)
		}
		if utf8.RuneCountInString(s) > longest {
			return nil, refusal(fmt.Sprintf("Value should have a maximum character requirement of %d", longest))
		}
		return s, nil
	}
}

// pattern is a text of at most 255 characters that matches.
func pattern(re string) check {
	compiled := regexp.MustCompile(re)
	return func(v any) (any, error) {
		s, err := text(255)(v)
		if err == nil && !compiled.MatchString(s.(string)) {
			return nil, refusal(fmt.Sprintf("Value should match the pattern %s", re))
		}
		return s, err
	}
}

func isBool(v any) (any, error) {
	switch v := v.(type) {
	case bool:
		return v, nil
	case json.Number:
		return v.String() != "0", nil
	case string:
		if b, ok := pyBool(v); ok {
			return b, nil
		}
		return nil, refusal("Value not an unambiguous boolean: " + v)
	}
	return nil, wrongType("bool", v)
}

// pyBool reads a boolean as oslo and wsme do.
func pyBool(s string) (value, ok bool) {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "1", "t", "true", "on", "y", "yes":
		return true, true
	case "0", "f", "false", "off", "n", "no":
		return false, true
	}
	return false, false
}

// integer is a whole number; most < least: no upper bound but the database's.
func integer(least, most int) check {
	if most < least {
		most = math.MaxInt32
	}
	return func(v any) (any, error) {
		var digits string
		switch v := v.(type) {
		case json.Number:
			digits = v.String()
		case string:
			digits = v
		default:
			return nil, wrongType("int", v)
		}
		n, err := strconv.Atoi(digits)
		if err != nil {
			f, ferr := strconv.ParseFloat(digits, 64)
			if _, number := v.(json.Number); !number || ferr != nil {
				return nil, refusal("invalid literal for int() with base 10: " + pyRepr(digits))
			}
			n = int(max(min(f, math.MaxInt32), math.MinInt32)) // Python truncates
		}
		switch {
		case n < least:
			return nil, refusal(fmt.Sprintf("Value should be greater or equal to %d", least))
		case n > most:
			return nil, refusal(fmt.Sprintf("Value should be lower or equal to %d", most))
		}
		return n, nil
	}
}

// isNumber is a number with a fraction, written with one: 1.0.
func isNumber(v any) (any, error) {
	n, ok := v.(json.Number)
	if !ok {
		return nil, wrongType("float", v)
	}
	f, err := n.Float64()
	if err != nil {
		return nil, wrongType("float", v)
	}
	return decimal(f), nil
}

func decimal(f float64) json.Number {
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return json.Number(s)
}

func oneOf(values ...string) check {
	return func(v any) (any, error) {
		if s, ok := v.(string); ok {
			for _, one := range values {
				if s == one {
					return s, nil
				}
			}
		}
		return nil, refusal("Value should be one of: " + strings.Join(values, ", "))
	}
}

func oneOfNumbers(values ...int) check {
	names := make([]string, len(values))
	for i, n := range values {
		names[i] = strconv.Itoa(n)
	}
	return func(v any) (any, error) {
		if n, ok := v.(json.Number); ok {
			for i, one := range names {
				if n.String() == one {
					return values[i], nil
				}
			}
		}
		return nil, refusal("Value should be one of: " + strings.Join(names, ", "))
	}
}

func isID(v any) (any, error) {
	if s, ok := v.(string); ok {
		if u, err := uuid.Parse(s); err == nil && (len(s) == 36 || len(s) == 32) {
			return u.String(), nil
		}
	}
	return nil, refusal("Value should be UUID format")
}

func isAddress(v any) (any, error) {
	if s, ok := v.(string); ok {
		if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
			return s, nil
		}
	}
	return nil, refusal("Value should be IPv4 or IPv6 format")
}

func isCIDR(v any) (any, error) {
	if s, ok := v.(string); ok {
		if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
			return netip.PrefixFrom(a, a.BitLen()).String(), nil
		}
		if p, err := netip.ParsePrefix(s); err == nil && p.Masked() == p {
			return p.String(), nil
		}
	}
	return nil, refusal("Value should be IPv4 or IPv6 CIDR format")
}

func isURL(v any) (any, error) {
	if s, ok := v.(string); ok && len(s) <= 255 {
		if u, err := url.Parse(s); err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" {
			return s, nil
		}
	}
	return nil, refusal("Not a valid URL: " + pyStr(v))
}

func isPath(v any) (any, error) {
	if s, ok := v.(string); ok && len(s) <= 255 {
		if u, err := url.Parse(s); err == nil && u.Scheme == "" && u.Host == "" && strings.HasPrefix(u.Path, "/") {
			return s, nil
		}
	}
	return nil, refusal("Not a valid URL Path: " + pyStr(v))
}

// listOf is a list of texts.
func listOf(item check) check {
	return func(v any) (any, error) {
		list, ok := v.([]any)
		if !ok {
			return nil, wrongType("list", v)
		}
		if len(list) > maxItems {
			return nil, refusal(fmt.Sprintf("Value should have at most %d items", maxItems))
		}
		out := make([]string, 0, len(list))
		for _, one := range list {
			if one == nil {
				return nil, wrongType("str", one)
			}
			s, err := item(one)
			if err != nil {
				return nil, err
			}
			out = append(out, s.(string))
		}
		return out, nil
	}
}

// maxItems bounds a list within an object (tags, CIDRs, headers).
const maxItems = 1000

// dictionary is a map of texts to texts.
func isDict(v any) (any, error) {
	m, ok := v.(map[string]any)
	if !ok {
		return nil, wrongType("dict", v)
	}
	if len(m) > maxItems {
		return nil, refusal(fmt.Sprintf("Value should have at most %d items", maxItems))
	}
	for _, one := range m {
		if _, err := text(255)(one); err != nil {
			return nil, err
		}
	}
	return m, nil
}

package cloud

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
)

// subnetPattern makes a filter of subnets. A name is a glob, or a regular expression after "~"; tags are separated by
// commas, and one of them is enough unless "&" is before them. "!" before either turns it round.
func subnetPattern(name, tags string) (func(subnets.Subnet) bool, error) {
	byName, err := namePattern(name)
	if err != nil {
		return nil, err
	}
	byTags := tagPattern(tags)
	return func(s subnets.Subnet) bool { return byName(s.Name) && byTags(s.Tags) }, nil
}

func namePattern(pattern string) (func(string) bool, error) {
	if pattern == "" {
		return func(string) bool { return true }, nil
	}
	pattern, not := strings.CutPrefix(pattern, "!")
	if expression, ok := strings.CutPrefix(pattern, "~"); ok {
		e, err := regexp.Compile(expression)
		if err != nil {
			return nil, fmt.Errorf("pattern of floating subnets: %w", err)
		}
		return func(s string) bool { return e.MatchString(s) != not }, nil
	}
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, fmt.Errorf("pattern of floating subnets: %q: %w", pattern, err)
	}
	return func(s string) bool {
		ok, _ := path.Match(pattern, s) // the pattern is all that can be wrong
		return ok != not
	}, nil
}

func tagPattern(pattern string) func([]string) bool {
	if pattern == "" {
		return func([]string) bool { return true }
	}
	pattern, not := strings.CutPrefix(pattern, "!")
	pattern, all := strings.CutPrefix(pattern, "&")
	var wanted []string
	for t := range strings.SplitSeq(pattern, ",") {
		wanted = append(wanted, strings.TrimSpace(t))
	}
	return func(tags []string) bool {
		missing := func(t string) bool { return !slices.Contains(tags, t) }
		if all {
			return !slices.ContainsFunc(wanted, missing) != not
		}
		return slices.ContainsFunc(wanted, func(t string) bool { return !missing(t) }) != not
	}
}

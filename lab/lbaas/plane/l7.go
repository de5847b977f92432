package plane

import (
	"fmt"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Actions of L7 policies, Octavia's names.
const (
	Reject         = "REJECT"
	RedirectToURL  = "REDIRECT_TO_URL"
	RedirectPrefix = "REDIRECT_PREFIX"
	RedirectToPool = "REDIRECT_TO_POOL"
)

// policy is an L7 policy, ready to use.
type policy struct {
	L7Policy
	rules []rule
	pool  *pool // of REDIRECT_TO_POOL
}

type rule struct {
	L7Rule
	matches func(text string) bool
}

// compile takes the policies that do something, in the order in which haproxy asks them: those that answer by themselves
// come before those that choose a pool. A policy without rules does nothing.
func compile(specs []L7Policy, pools map[string]*pool) ([]policy, error) {
	var all []policy
	for _, spec := range specs {
		p := policy{L7Policy: spec, pool: enabled(pools[spec.RedirectPool])}
		for _, r := range spec.Rules {
			if !r.AdminUp {
				continue
			}
			m, err := matcher(r)
			if err != nil {
				return nil, fmt.Errorf("L7 policy %s: %w", spec.ID, err)
			}
			p.rules = append(p.rules, rule{r, m})
		}
		if spec.AdminUp && len(p.rules) > 0 && (spec.Action != RedirectToPool || p.pool != nil) {
			all = append(all, p)
		}
	}
	slices.SortStableFunc(all, func(a, b policy) int { return rank(a) - rank(b) })
	return all, nil
}

func rank(p policy) int {
	if p.Action == RedirectToPool {
		return 1
	}
	return 0
}

func matcher(r L7Rule) (func(string) bool, error) {
	want := r.Value
	fold := func(s string) string { return s }
	if r.Type == "HOST_NAME" {
		fold = strings.ToLower
		want = fold(want)
	}
	switch r.CompareType {
	case "EQUAL_TO":
		return func(s string) bool { return fold(s) == want }, nil
	case "STARTS_WITH":
		return func(s string) bool { return strings.HasPrefix(fold(s), want) }, nil
	case "ENDS_WITH":
		return func(s string) bool { return strings.HasSuffix(fold(s), want) }, nil
	case "CONTAINS":
		return func(s string) bool { return strings.Contains(fold(s), want) }, nil
	case "REGEX":
		pattern := r.Value
		if r.Type == "HOST_NAME" {
			pattern = "(?i)" + pattern
		}
		re, err := regexp.Compile(pattern)
		if err != nil {
			return nil, fmt.Errorf("regular expression of a rule: %w", err)
		}
		return re.MatchString, nil
	}
	return nil, fmt.Errorf("compare type %q is not known", r.CompareType)
}

// match returns the first policy whose rules all match; nil: none.
func match(policies []policy, r *http.Request) *policy {
	for i := range policies {
		if policies[i].match(r) {
			return &policies[i]
		}
	}
	return nil
}

func (p *policy) match(r *http.Request) bool {
	for _, rule := range p.rules {
		if slices.ContainsFunc(subjects(rule.L7Rule, r), rule.matches) == rule.Invert {
			return false
		}
	}
	return true
}

// subjects are the texts that a rule looks at: one that matches is enough.
func subjects(r L7Rule, req *http.Request) []string {
	switch r.Type {
	case "HOST_NAME":
		return []string{req.Host}
	case "PATH":
		return []string{req.URL.EscapedPath()}
	case "FILE_TYPE":
		return []string{strings.TrimPrefix(path.Ext(req.URL.EscapedPath()), ".")}
	case "HEADER":
		if strings.EqualFold(r.Key, "Host") { // net/http keeps it elsewhere
			return []string{req.Host}
		}
		return req.Header.Values(r.Key)
	case "COOKIE":
		var values []string
		for _, c := range req.CookiesNamed(r.Key) {
			values = append(values, c.Value)
		}
		return values
	case "SSL_VERIFY_RESULT": // nobody is asked for a certificate
		return []string{"0"}
	}
	return nil // SSL_CONN_HAS_CERT and SSL_DN_FIELD: there is none
}

// answer is what a policy says in place of a member.
func (p *policy) answer(w http.ResponseWriter, r *http.Request) {
	if p.Action == Reject {
		page(w, http.StatusForbidden)
		return
	}
	to := p.RedirectURL
	if p.Action == RedirectPrefix {
		to = p.RedirectPrefix + r.URL.RequestURI()
	}
	code := p.RedirectCode
	if code == 0 {
		code = http.StatusFound
	}
	w.Header().Set("Location", to)
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(code)
}

// page answers as haproxy does by itself.
func page(w http.ResponseWriter, code int) {
	text := map[int]string{
		http.StatusForbidden:          "Request forbidden by administrative rules.",
		http.StatusBadGateway:         "The server returned an invalid or incomplete response.",
		http.StatusServiceUnavailable: "No server is available to handle this request.",
		http.StatusGatewayTimeout:     "The server didn't respond in time.",
	}[code]
	title := http.StatusText(code)
	if code == http.StatusGatewayTimeout {
		title = "Gateway Time-out"
	}
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Content-Type", "text/html")
	w.WriteHeader(code)
	fmt.Fprintf(w, "<html><body><h1>%d %s</h1>\n%s\n</body></html>\n", code, title, text)
}

package check

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// probeHTTP writes the request itself: net/http speaks nothing older than 1.1, and Octavia asks in 1.0 by default.
func probeHTTP(ctx context.Context, s Spec) error {
	expected, err := parseCodes(s.ExpectedCodes)
	if err != nil {
		return err
	}
	raw, err := dial(ctx, s)
	if err != nil {
		return err
	}
	defer raw.Close()
	c := net.Conn(raw)
	if s.Type == HTTPS {
		secure := tls.Client(raw, tlsConfig(s))
		if err := secure.HandshakeContext(ctx); err != nil {
			return err
		}
		c = secure
	}
	method := orElse(s.Method, http.MethodGet)
	if _, err := c.Write(request(s, method)); err != nil {
		return err
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		return fmt.Errorf("no answer in HTTP: %w", err)
	}
	_ = resp.Body.Close()
	if !expected.has(resp.StatusCode) {
		return fmt.Errorf("answered %d, expected %s", resp.StatusCode, orElse(s.ExpectedCodes, "200"))
	}
	return nil
}

func request(s Spec, method string) []byte {
	path := orElse(s.Path, "/")
	if s.HTTPVersion != 1.1 {
		return fmt.Appendf(nil, "%s %s HTTP/1.0\r\n\r\n", method, path)
	}
	host := orElse(s.DomainName, s.Target.Addr().String())
	return fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", method, path, host)
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// codes are ranges of status codes, ends included.
type codes [][2]int

func (c codes) has(code int) bool {
	for _, r := range c {
		if r[0] <= code && code <= r[1] {
			return true
		}
	}
	return false
}

func parseCodes(text string) (codes, error) {
	var all codes
	for _, part := range strings.Split(orElse(text, "200"), ",") {
		from, to, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			to = from
		}
		low, err := strconv.Atoi(from)
		if err != nil {
			return nil, fmt.Errorf("expected codes %q: want such as 200, 200,202 or 200-204", text)
		}
		high, err := strconv.Atoi(to)
		if err != nil {
			return nil, fmt.Errorf("expected codes %q: want such as 200, 200,202 or 200-204", text)
		}
		all = append(all, [2]int{low, high})
	}
	return all, nil
}

package plane

import (
	"net/http"
	"strconv"
	"strings"
)

// insertHeaders adds what the listener is to insert, as Octavia has haproxy do it: the client's address is added to what is
// there, all else replaces it. Nobody is asked for a certificate, so there is none to tell of.
func insertHeaders(h http.Header, e *exchange) {
	wanted := func(name string) bool { return strings.EqualFold(e.f.spec.InsertHeaders[name], "true") }
	if e.pool.protocol() == "HTTP" {
		if wanted("X-Forwarded-For") {
			h.Add("X-Forwarded-For", e.client.Addr().Unmap().String())
		}
		if wanted("X-Forwarded-Port") {
			h.Set("X-Forwarded-Port", strconv.Itoa(int(e.vip.Port())))
		}
	}
	if wanted("X-Forwarded-Proto") {
		scheme := "http"
		if e.f.isTLS() {
			scheme = "https"
		}
		h.Set("X-Forwarded-Proto", scheme)
	}
	if !e.f.isTLS() {
		return
	}
	for name, value := range map[string]string{
		"X-SSL-Client-Verify": "0", "X-SSL-Client-Has-Cert": "0", "X-SSL-Client-DN": `""`, "X-SSL-Client-CN": `""`,
		"X-SSL-Issuer": `""`, "X-SSL-Client-SHA1": `""`, "X-SSL-Client-Not-Before": `""`, "X-SSL-Client-Not-After": `""`,
	} {
		if wanted(name) {
			h.Set(name, value)
		}
	}
}

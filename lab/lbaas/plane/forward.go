package plane

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"time"
)

// srvCookie is the cookie of persistence by HTTP_COOKIE, Octavia's name.
const srvCookie = "SRV"

// exchange is what belongs to one request.
type exchange struct {
	f           *frontend
	pool        *pool
	client, vip netip.AddrPort
	cookie      string  // the persistence cookie's value that the client sent
	choice      *choice // the member that answered
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange {
	e, _ := ctx.Value(exchangeKey{}).(*exchange)
	return e
}

// forwarder answers the requests of an HTTP listener: by a policy, or by a member of a pool.
type forwarder struct {
	l     *listener
	vip   netip.AddrPort
	proxy *httputil.ReverseProxy
}

func newForwarder(l *listener, at netip.AddrPort) *forwarder {
	h := &forwarder{l: l, vip: at}
	h.proxy = &httputil.ReverseProxy{
		Rewrite:        rewrite,
		Transport:      newMemberTransport(),
		FlushInterval:  -1,
		ModifyResponse: modifyResponse,
		ErrorHandler:   h.failed,
		ErrorLog:       log.New(io.Discard, "", 0), // counted, not told
	}
	return h
}

func (h *forwarder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f := h.l.conf.Load()
	e := &exchange{f: f, pool: f.pool, vip: h.vip}
	e.client, _ = netip.ParseAddrPort(r.RemoteAddr) // the server's own, well formed
	if p := match(f.policies, r); p != nil {
		if p.Action != RedirectToPool {
			p.answer(w, r)
			return
		}
		e.pool = p.pool
	}
	if e.pool == nil {
		page(w, http.StatusServiceUnavailable)
		return
	}
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = clientBody{r.Body, http.NewResponseController(w), f.clientData}
	}
	e.cookie = e.persistenceCookie(r)
	defer func() { // the proxy panics where the client goes in the middle of an answer
		if e.choice != nil {
			e.choice.release()
		}
	}()
	h.proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, e)))
}

func (h *forwarder) failed(w http.ResponseWriter, r *http.Request, err error) {
	var dial *dialError
	switch {
	case r.Context().Err() != nil: // the client has gone
		h.l.counts.errors.Add(1)
		page(w, http.StatusBadGateway)
	case errors.Is(err, errNoMember), errors.As(err, &dial):
		page(w, http.StatusServiceUnavailable)
	case errors.Is(err, errSilent):
		page(w, http.StatusGatewayTimeout)
	default:
		page(w, http.StatusBadGateway)
	}
}

// rewrite makes a client's request the member's: nothing is taken away but what belongs to the connection and to the
// balancer.
func rewrite(pr *httputil.ProxyRequest) {
	e := exchangeOf(pr.In.Context())
	pr.Out.URL.Scheme, pr.Out.URL.Host = "http", "member" // the transport knows which
	pr.Out.Host = pr.In.Host
	pr.Out.URL.RawQuery = pr.In.URL.RawQuery // be it one that Go finds doubtful
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if v := pr.In.Header.Values(name); len(v) > 0 { // haproxy passes on what clients claim
			pr.Out.Header[http.CanonicalHeaderKey(name)] = append([]string(nil), v...)
		}
	}
	if _, ok := pr.In.Header["User-Agent"]; !ok {
		pr.Out.Header["User-Agent"] = nil // none rather than Go's
	}
	insertHeaders(pr.Out.Header, e)
	if e.pool.persists() == HTTPCookie {
		dropCookie(pr.Out, srvCookie)
	}
}

// dropCookie takes one cookie out of a request and leaves the others as they are.
func dropCookie(r *http.Request, name string) {
	all := r.Cookies()
	r.Header.Del("Cookie")
	for _, c := range all {
		if c.Name != name {
			r.AddCookie(c)
		}
	}
}

// persistenceCookie is the value that says where the client belongs; "" where it is new.
func (e *exchange) persistenceCookie(r *http.Request) string {
	name := srvCookie
	switch e.pool.persists() {
	case HTTPCookie:
	case AppCookie:
		name = e.pool.appCookie()
	default:
		return ""
	}
	c, err := r.Cookie(name)
	if err != nil {
		return ""
	}
	return c.Value
}

// known is the member that the client's cookie leads to.
func (e *exchange) known() *choice {
	if e.cookie == "" {
		return nil
	}
	choose := e.pool.chooseKnown
	if e.pool.persists() == AppCookie {
		choose = e.pool.chooseByApp
	}
	if c, ok := choose(e.cookie); ok {
		return &c
	}
	return nil
}

// modifyResponse tells the client, or notes, where it belongs.
func modifyResponse(resp *http.Response) error {
	e := exchangeOf(resp.Request.Context())
	switch e.pool.persists() {
	case HTTPCookie:
		if e.cookie != e.choice.id {
			resp.Header.Add("Set-Cookie", srvCookie+"="+e.choice.id+"; path=/")
			resp.Header.Add("Cache-Control", "private")
		}
	case AppCookie:
		for _, c := range resp.Cookies() {
			if c.Name == e.pool.appCookie() {
				e.pool.rememberApp(c.Value, e.choice.id)
			}
		}
	}
	return nil
}

// memberTransport sends a request to a member that it chooses, and to another one where there is no connection to be had.
type memberTransport struct {
	shared *http.Transport // connections serve one client after the other
	own    *http.Transport // each is one client's, as its PROXY header says: also one that came too late for it serves nobody else
}

func newMemberTransport() *memberTransport {
	t := &memberTransport{
		shared: &http.Transport{
			DialContext: dialMember, DisableCompression: true, MaxIdleConnsPerHost: 100, IdleConnTimeout: defaultMemberData,
		},
	}
	t.own = t.shared.Clone()
	t.own.DisableKeepAlives = true
	return t
}

// errSilent ends a request whose member says nothing for too long.
var errSilent = errors.New("the member did not respond in time")

// dialError says that no member was reached; nothing of the request has been sent.
type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }

func dialMember(ctx context.Context, _, address string) (net.Conn, error) {
	e := exchangeOf(ctx)
	ctx, cancel := context.WithTimeout(ctx, e.f.connect)
	defer cancel()
	d := net.Dialer{KeepAlive: -1}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, &dialError{err}
	}
	head, err := preface(e.pool.protocol(), e.client, e.vip)
	if err == nil && head != nil {
		_, err = conn.Write(head)
	}
	if err != nil {
		return nil, &dialError{errors.Join(err, conn.Close())}
	}
	return conn, nil
}

// RoundTrip asks a member.
func (t *memberTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	e := exchangeOf(req.Context())
	var resp *http.Response
	err := e.f.attempts(req.Context(), e.pool, e.known(), e.client, func(c choice) error {
		var err error
		resp, err = t.ask(req, e, c) //nolint:bodyclose // who called RoundTrip closes it
		var dial *dialError
		if err != nil && !errors.As(err, &dial) {
			return &finalError{err}
		}
		if err == nil {
			e.choice = &c
		}
		return err
	})
	if req.Body != nil && resp == nil {
		_ = req.Body.Close()
	}
	return resp, err
}

func (t *memberTransport) ask(req *http.Request, e *exchange, c choice) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	timer := time.AfterFunc(e.f.memberData, func() { cancel(errSilent) })
	out := req.Clone(ctx)
	out.URL.Host = c.address
	base := t.shared
	if proxyVersion(e.pool.protocol()) != 0 {
		base = t.own
	}
	if req.Body != nil && req.Body != http.NoBody {
		out.Body = uploading{req.Body, timer, e.f.memberData}
	}
	resp, err := base.RoundTrip(out)
	if err != nil {
		timer.Stop()
		if cause := context.Cause(ctx); errors.Is(cause, errSilent) {
			err = cause
		}
		cancel(nil)
		return nil, err
	}
	resp.Request = req
	if resp.StatusCode == http.StatusSwitchingProtocols {
		timer.Stop()
		context.AfterFunc(req.Context(), func() { cancel(nil) })
		return resp, nil
	}
	resp.Body = memberBody{resp.Body, timer, e.f.memberData, cancel}
	return resp, nil
}

// uploading gives the member its time after each piece of the request's body. It stays open for another attempt.
type uploading struct {
	io.Reader
	timer *time.Timer
	wait  time.Duration
}

func (u uploading) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	u.timer.Reset(u.wait)
	return n, err
}

func (u uploading) Close() error { return nil }

// memberBody gives the member its time between two pieces of the response's body.
type memberBody struct {
	io.ReadCloser
	timer  *time.Timer
	wait   time.Duration
	cancel context.CancelCauseFunc
}

func (b memberBody) Read(p []byte) (int, error) {
	b.timer.Reset(b.wait)
	return b.ReadCloser.Read(p)
}

func (b memberBody) Close() error {
	b.timer.Stop()
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}

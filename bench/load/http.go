package load

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"
)

// podHeader is the header in which the echo protocol names the pod.
const podHeader = "X-Proxylab-Pod"

// seqHeader is where vegeta puts a request's number. It is taken out before the request is sent.
const seqHeader = "X-Vegeta-Seq"

// runHTTP sends requests through vegeta, which schedules them onto its workers. Its results say when a worker
// took a request up, not when it was due, and its errors are text: so latency is computed from the sequence number,
// and the rest is noted by the transport, where it is seen.
func runHTTP(j *job) error {
	p := &pacer{ctx: j.stop, schedule: schedule{rate: j.spec.Rate, length: j.spec.Duration}}
	tr := newTransport(j, p)
	defer tr.close()
	attacker := vegeta.NewAttacker(
		vegeta.Client(&http.Client{Transport: tr, CheckRedirect: noRedirect}),
		vegeta.MaxBody(0), // bodies are counted by the transport and need not be kept
		vegeta.Workers(min(vegeta.DefaultWorkers, uint64(j.spec.workers()))),
		vegeta.MaxWorkers(uint64(j.spec.workers())),
	)
	// The pacer ends the attack; Stop is for when it waits for a worker to become free.
	defer context.AfterFunc(j.stop, func() { attacker.Stop() })()
	next := j.spec.roundRobin()
	targeter := func(t *vegeta.Target) error {
		t.Method, t.URL = http.MethodGet, "http://"+next()+j.spec.URLPath
		return nil
	}
	for r := range attacker.Attack(targeter, p, 0, "") {
		o, ok := tr.outcome(r.Seq)
		if !ok {
			j.fail(errors.New(r.Error)) // it never reached the transport
			continue
		}
		if o.err != nil {
			j.fail(o.err)
			continue
		}
		j.rec.success(o.pod, r.Timestamp.Add(r.Latency).Sub(p.due(r.Seq)), o.bytes.Load())
	}
	return nil
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// pacer makes vegeta send each request when it is due. It sleeps by itself, to absolute deadlines, because vegeta
// would sleep by Go's timers.
type pacer struct {
	schedule
	ctx context.Context
}

// Pace is called before each request, by one goroutine.
func (p *pacer) Pace(elapsed time.Duration, sent uint64) (wait time.Duration, stop bool) {
	if sent == 0 && p.start.IsZero() {
		p.start = time.Now().Add(-elapsed)
	}
	return 0, !p.await(p.ctx, sent)
}

// Rate is for vegeta's reports, which are not used.
func (p *pacer) Rate(time.Duration) float64 { return p.rate }

// String names the pacer in vegeta's reports.
func (p *pacer) String() string { return strconv.FormatFloat(p.rate, 'g', -1, 64) + "/s" }

// outcome is what became of a request.
type outcome struct {
	err   error
	pod   string
	bytes atomic.Int64
}

// transport does the requests, each with a deadline from when it was due, and keeps their outcomes for runHTTP.
type transport struct {
	job      *job
	pacer    *pacer
	clients  []*http.Transport
	outcomes sync.Map // sequence number -> *outcome
	ctx      context.Context
	cancel   context.CancelFunc
}

func newTransport(j *job, p *pacer) *transport {
	t := &transport{job: j, pacer: p}
	t.ctx, t.cancel = context.WithCancel(j.hard)
	clients := 1
	if j.spec.Connections == KeepAlive {
		clients = j.spec.Count
	}
	for range clients {
		t.clients = append(t.clients, &http.Transport{
			DialContext:         t.dial,
			DisableKeepAlives:   j.spec.Connections != KeepAlive,
			DisableCompression:  true,
			MaxIdleConnsPerHost: maxWorkers,
		})
	}
	return t
}

// close ends what no request waits for any more.
func (t *transport) close() {
	t.cancel()
	for _, c := range t.clients {
		c.CloseIdleConnections()
	}
}

// outcome returns what became of a request, once.
func (t *transport) outcome(seq uint64) (*outcome, bool) {
	o, ok := t.outcomes.LoadAndDelete(seq)
	if !ok {
		return nil, false
	}
	return o.(*outcome), true
}

// dial makes a connection that remembers how it broke. With keepalive, net/http lets a dial go on after the request
// that wanted it has ended, for the next one to use: it ends with the load, or the timeout.
func (t *transport) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, t.job.spec.Timeout)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	c, err := dial(ctx, network, addr, 0, t.job.rec.connected)
	if err != nil {
		return nil, err
	}
	if t.job.spec.Connections == KeepAlive {
		keep(c)
	}
	return &httpConn{Conn: c}, nil
}

// RoundTrip does one request. The response's body notes the end of it.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	seq, err := strconv.ParseUint(r.Header.Get(seqHeader), 10, 64)
	if err != nil {
		return nil, err
	}
	o := &outcome{}
	t.outcomes.Store(seq, o)
	due := t.pacer.due(seq)
	deadline := due.Add(t.job.spec.Timeout)
	t.job.rec.sent(time.Since(due))
	if !time.Now().Before(deadline) {
		o.err = errUnsent
		return nil, o.err
	}
	ctx, cancel := context.WithDeadline(t.ctx, deadline)
	a := &attempt{}
	request := r.Clone(httptrace.WithClientTrace(ctx, a.trace()))
	request.Header.Del(seqHeader)
	sendOnce(request)
	response, err := t.clients[seq%uint64(len(t.clients))].RoundTrip(request)
	if err != nil {
		cancel()
		o.err = a.cause(err)
		return nil, o.err
	}
	o.pod = response.Header.Get(podHeader)
	if response.StatusCode/100 != 2 {
		o.err = statusError(response.StatusCode)
	}
	response.Body = &body{ReadCloser: response.Body, outcome: o, attempt: a, end: cancel}
	return response, nil
}

// body counts what is read and notes how it failed.
type body struct {
	io.ReadCloser
	outcome *outcome
	attempt *attempt
	end     func()
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.outcome.bytes.Add(int64(n))
	if err != nil && err != io.EOF && b.outcome.err == nil {
		b.outcome.err = b.attempt.cause(err)
	}
	return n, err
}

func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.end()
	return err
}

package plane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"proxylab/lab/procs"
)

const (
	retries = 3 // Octavia writes "retries 3" and "option redispatch"
	// turnAround goes before another attempt at the same member.
	turnAround = time.Second
)

// deadline is a context whose end a dialer sees to by itself: it has no timer of its own.
type deadline struct {
	context.Context
	at time.Time
}

func (d deadline) Deadline() (time.Time, bool) { return d.at, true }

// finalError ends the attempts.
type finalError struct{ error }

func (e *finalError) Unwrap() error { return e.error }

// attempts tries members for a client as haproxy does, until try succeeds: four times, at another member at once where it does not
// matter which one the client gets, else with the last. The member that it succeeded with is taken: the caller releases it. first
// is where to begin, if the client belongs somewhere.
func (f *frontend) attempts(ctx context.Context, p *pool, first *choice, client netip.AddrPort, try func(choice) error) error {
	c, err := p.begin(first, client)
	if err != nil {
		return err
	}
	for attempt := 0; ; attempt++ {
		failed := try(c)
		if failed == nil {
			p.remember(client, c.id)
			return nil
		}
		c.release()
		var final *finalError
		if attempt == retries || errors.As(failed, &final) {
			return failed
		}
		var wait bool
		if c, wait, err = p.again(c, attempt+1 == retries, client); err != nil {
			return errors.Join(err, failed)
		}
		if !wait || timedOut(failed) {
			continue
		}
		if err := procs.Sleep(ctx, min(turnAround, f.connect)); err != nil {
			c.release()
			return err
		}
	}
}

// connectTo opens a connection to a member for a client.
func (f *frontend) connectTo(ctx context.Context, p *pool, client, vip netip.AddrPort) (conn *net.TCPConn, c choice, err error) {
	if p == nil {
		return nil, choice{}, errNoMember
	}
	err = f.attempts(ctx, p, nil, client, func(to choice) (err error) {
		c = to
		conn, err = f.dial(ctx, p, to, client, vip)
		return err
	})
	return conn, c, err
}

// begin makes the first choice.
func (p *pool) begin(first *choice, client netip.AddrPort) (choice, error) {
	if first != nil {
		return *first, nil
	}
	return p.choose(client, "")
}

// again chooses for another attempt, and says whether to wait before it: where the same member is to be had.
func (p *pool) again(failed choice, last bool, client netip.AddrPort) (c choice, wait bool, err error) {
	alone, indifferent := p.turning(failed)
	if !last && !indifferent {
		if c, ok := p.chooseKnown(failed.id); ok {
			c.direct = failed.direct
			return c, true, nil
		}
	}
	c, err = p.choose(client, failed.id)
	return c, alone, err
}

func (f *frontend) dial(ctx context.Context, p *pool, c choice, client, vip netip.AddrPort) (*net.TCPConn, error) {
	head, err := preface(p.protocol(), client, vip)
	if err != nil {
		return nil, err
	}
	d := net.Dialer{KeepAlive: -1}
	conn, err := d.DialContext(deadline{ctx, time.Now().Add(f.connect)}, "tcp", c.address)
	if err != nil {
		return nil, err
	}
	if head == nil {
		return conn.(*net.TCPConn), nil
	}
	if _, err := conn.Write(head); err != nil {
		return nil, errors.Join(fmt.Errorf("PROXY protocol header: %w", err), conn.Close())
	}
	return conn.(*net.TCPConn), nil
}

func timedOut(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

package plane

import (
	"bytes"
	"crypto/tls"
	"time"
)

// Octavia's defaults.
const (
	defaultClientData    = 50 * time.Second
	defaultMemberConnect = 5 * time.Second
	defaultMemberData    = 50 * time.Second
)

// frontend is what a listener does, at one time; it does not change.
type frontend struct {
	spec     Listener
	pool     *pool // nil: none
	policies []policy
	tls      *tls.Config // of TERMINATED_HTTPS

	clientData, connect, memberData time.Duration
}

// newFrontend prepares what a listener is to do now; old is what it did before, nil at first.
func newFrontend(spec Listener, pools map[string]*pool, old *frontend) (*frontend, error) {
	f := &frontend{
		spec:       spec,
		clientData: orDefault(spec.Timeouts.ClientData, defaultClientData),
		connect:    orDefault(spec.Timeouts.MemberConnect, defaultMemberConnect),
		memberData: orDefault(spec.Timeouts.MemberData, defaultMemberData),
		pool:       enabled(pools[spec.DefaultPool]),
	}
	var err error
	if f.policies, err = compile(spec.Policies, pools); err != nil {
		return nil, err
	}
	switch {
	case !f.isTLS():
	case old != nil && old.tls != nil && bytes.Equal(old.spec.Certificate, spec.Certificate) && bytes.Equal(old.spec.Key, spec.Key):
		f.tls = old.tls // also where it was made here
	default:
		if f.tls, err = serverTLS(spec); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func orDefault(d, other time.Duration) time.Duration {
	if d <= 0 {
		return other
	}
	return d
}

// enabled is nil for a pool that is switched off: nobody writes it into haproxy's configuration either.
func enabled(p *pool) *pool {
	if p == nil || !p.enabled() {
		return nil
	}
	return p
}

// idle is how long a connection may carry nothing: activity in either direction counts for both sides.
func (f *frontend) idle() time.Duration { return min(f.clientData, f.memberData) }

func (f *frontend) isHTTP() bool { return f.spec.Protocol == "HTTP" || f.isTLS() }

func (f *frontend) isTLS() bool { return f.spec.Protocol == "TERMINATED_HTTPS" }

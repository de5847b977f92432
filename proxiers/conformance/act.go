package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"proxylab/proxiers/conformance/dialer"
)

// Pause lets time pass, where the passing of time is what a behaviour is about.
func (t *T) Pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-t.ctx.Done():
		t.Fatalf("%v", context.Cause(t.ctx))
	}
}

// Met asks a target and says what is wrong about the answers; empty: each of these pods answers and nothing else does.
func (t *T) Met(from string, to Target, pods ...string) string {
	a := t.Ask(from, to).Within(time.Second)
	if len(pods) > 1 {
		a.Times(Many)
		a.req.Least, a.req.Names = Enough, pods
	}
	got := a.Tally()
	for _, pod := range pods {
		if got.Pods[pod] == 0 || len(got.Pods) > len(pods) || got.Failed() > 0 {
			_, what := t.world.place(from)
			return fmt.Sprintf("from %s to %s: want %v; met %s", what, to, pods, describe(got))
		}
	}
	return ""
}

// AwaitFailure returns when the proxier of a node has told that a sync failed, or after the limit: some have nothing that
// fails, or do not tell.
func (t *T) AwaitFailure(node int, limit time.Duration) {
	for began := time.Now(); time.Since(began) < limit; t.Pause(20 * time.Millisecond) {
		if t.Running(node).Error != "" {
			return
		}
	}
}

// UndoOnce runs a program at a place when it is called, or else when the trial is over.
func (t *T) UndoOnce(place string, args ...string) (now func()) {
	at, what := t.world.place(place)
	var once sync.Once
	run := func(ctx context.Context) (err error) {
		once.Do(func() { _, err = runAt(ctx, t.world.cluster, at, what, args...) })
		return err
	}
	t.Cleanup(run)
	return func() { t.Check(run(t.ctx)) }
}

// Meanwhile calls f again and again until it is stopped; an error of f ends that and fails the trial.
func (t *T) Meanwhile(f func() error) (stop func()) {
	quit, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-quit:
				ended <- nil
				return
			default:
			}
			if err := f(); err != nil {
				<-quit
				ended <- err
				return
			}
		}
	}()
	var once sync.Once
	end := func() (err error) {
		once.Do(func() {
			close(quit)
			err = <-ended
		})
		return err
	}
	t.Cleanup(func(context.Context) error { return end() })
	return func() { t.Check(end()) }
}

// TryEndpoints is Endpoints for use by Meanwhile.
func (s *Service) TryEndpoints(endpoints ...Endpoint) error { return s.setEndpoints(s.ctx, endpoints) }

// TryRemove is Remove for use by Meanwhile.
func (s *Service) TryRemove() error { return s.remove(s.ctx) }

// TryService is T.Service for use by Meanwhile; whoever makes it removes it.
func (t *T) TryService(name string, ports []Port, edits ...func(*service)) (*Service, error) {
	s := &Service{ctx: t.ctx, t: t, world: t.world, namespace: t.namespace, name: name, ports: ports, edits: edits}
	return s, s.create()
}

// AnotherSlice adds a slice of its own name to the Service, in each family, which goes with the trial.
func (s *Service) AnotherSlice(name string, endpoints ...Endpoint) {
	other := &Service{
		ctx: s.ctx, t: s.t, world: s.world, namespace: s.namespace, name: s.name, ports: s.ports,
		object: s.object, slices: map[Family]*discoveryv1.EndpointSlice{}, suffix: "-" + name,
	}
	s.t.Check(other.setEndpoints(s.ctx, endpoints))
	s.t.Cleanup(func(ctx context.Context) error {
		var errs []error
		for _, f := range []Family{IPv4, IPv6} {
			slices := s.world.cluster.Client().DiscoveryV1().EndpointSlices(s.namespace)
			errs = append(errs, slices.Delete(ctx, other.sliceName(f), metav1.DeleteOptions{}))
		}
		return errors.Join(errs...)
	})
}

// KillAtRandom kills the proxier of a node at a random moment of the half second to come, or, early, at one while it is
// starting; then it starts it anew. How it ends when it is killed as it starts is of no interest.
func (t *T) KillAtRandom(node int, early bool) {
	if early {
		t.KillProxier(node)
		started := make(chan struct{})
		go func() {
			defer close(started)
			_ = t.TryStart(t.ctx, node) // it may be killed before it has synced
		}()
		t.Pause(rand.N(700 * time.Millisecond))
		t.KillProxier(node)
		<-started
		t.KillProxier(node) // it was not there yet
	} else {
		t.Pause(rand.N(500 * time.Millisecond))
		t.KillProxier(node)
	}
	t.StartProxier(node)
}

// Abort ends a TCP connection by a reset.
func (f *Flow) Abort() {
	f.t.dial(f.from, dialer.Request{Do: dialer.Close, Flow: f.name, Abort: true})
}

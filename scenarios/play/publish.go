package play

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"proxylab/bench/events"
	"proxylab/bench/load"
	"proxylab/bench/publish"
	"proxylab/lab"
	"proxylab/scenarios"
)

// publisher measures how long each Service of type LoadBalancer takes until it answers through its VIP: it is asked from
// outside as soon as the Service has one.
type publisher struct {
	worker *worker
	emit   func(events.Event)

	mu       sync.Mutex
	services map[string]*publication // by namespace/name
	changed  chan struct{}           // closed and replaced at every change
}

// publication is how far a Service is.
type publication struct {
	since    time.Time // it was created
	address  string    // of its VIP, with a port; "": it has none
	answered bool
}

func startPublisher(ctx context.Context, l lab.Lab, emit func(events.Event)) (*publisher, error) {
	p := &publisher{emit: emit, services: map[string]*publication{}, changed: make(chan struct{})}
	w, err := startWorker(context.WithoutCancel(ctx), l, lab.Place{}, "publish", "prober", publish.Spec{}, p.found)
	p.worker = w
	return p, err
}

// created says that a Service is about to be made.
func (p *publisher) created(object *unstructured.Unstructured) {
	kind, _, _ := unstructured.NestedString(object.Object, "spec", "type")
	if object.GetKind() != "Service" || kind != string(corev1.ServiceTypeLoadBalancer) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	name := namespaceOf(object) + "/" + object.GetName()
	if p.services[name] == nil { // otherwise it is there and is changed
		p.services[name] = &publication{since: time.Now()}
	}
}

// shown takes a Service as the watch shows it.
func (p *publisher) shown(object any) {
	at := time.Now()
	svc, ok := object.(*corev1.Service)
	if !ok || svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return
	}
	vip := cmp.Or(vipOf(svc, corev1.IPv4Protocol), vipOf(svc, corev1.IPv6Protocol))
	if vip == "" || len(svc.Spec.Ports) == 0 {
		return
	}
	port := svc.Spec.Ports[0]
	name := svc.Namespace + "/" + svc.Name
	p.mu.Lock()
	is := p.services[name]
	news := is != nil && is.address == ""
	if news {
		is.address = net.JoinHostPort(vip, strconv.Itoa(int(port.Port)))
		p.change()
	}
	p.mu.Unlock()
	if !news {
		return
	}
	err := p.worker.tell(publish.Target{
		Service: name, Created: true, Since: is.since, AddressSeconds: at.Sub(is.since).Seconds(), Address: is.address, Kind: askingOf(port),
	})
	if err != nil {
		p.emit(note("how long %s takes to answer is not measured: %v", name, err))
	}
}

// change is called with the lock.
func (p *publisher) change() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// askingOf is how to ask a port, as the ports of the image proxylab/echo are called.
func askingOf(port corev1.ServicePort) string {
	switch {
	case port.Protocol == corev1.ProtocolUDP:
		return load.UDP
	case port.Name == "tcp":
		return load.Connect
	}
	return load.HTTP
}

// vipOf is the address in a family that the Service's load balancer has; "": none.
func vipOf(svc *corev1.Service, family corev1.IPFamily) string {
	for _, in := range svc.Status.LoadBalancer.Ingress {
		if ip := net.ParseIP(in.IP); ip != nil && (ip.To4() != nil) == (family == corev1.IPv4Protocol) {
			return in.IP
		}
	}
	return ""
}

// found takes what the prober reports.
func (p *publisher) found(e events.Event) {
	p.emit(e)
	if e.LBPublished == nil || e.LBPublished.Error != "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if is := p.services[e.LBPublished.Service]; is != nil {
		is.answered = true
		p.change()
	}
}

// await returns when the Services have their VIP, or answer through it. Empty names are all that were made.
func (p *publisher) await(ctx context.Context, names []string, until string, limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	names = p.names(names)
	for {
		waiting, changed := p.waiting(names, until)
		if len(waiting) == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-timer.C:
			return fmt.Errorf("after %s: %s", limit, strings.Join(waiting, ", "))
		case <-p.worker.done:
			return errors.Join(errors.New("the prober of VIPs ended"), p.worker.err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// names are these Services, or all that were made.
func (p *publisher) names(names []string) []string {
	if len(names) > 0 {
		return names
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.services))
}

// forget is for a Service that is gone: another of that name is another.
func (p *publisher) forget(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.services, name)
}

// waiting says of each Service that is not as far yet what it lacks; of many, of the first few.
func (p *publisher) waiting(names []string, until string) (list []string, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range names {
		namespace, service := scenarios.SplitName(name)
		switch is := p.services[namespace+"/"+service]; {
		case is == nil:
			list = append(list, name+" was not made by the scenario")
		case is.address == "":
			list = append(list, name+" has no VIP")
		case until != "address" && !is.answered:
			list = append(list, name+" does not answer at "+is.address)
		}
	}
	return few(list), p.changed
}

// few is a list that a message can hold.
func few(list []string) []string {
	if most := 5; len(list) > most {
		return append(list[:most:most], fmt.Sprintf("and %d more", len(list)-most))
	}
	return list
}

// close reports the Services that never had a VIP, and ends the prober, which reports those that never answered.
func (p *publisher) close() error {
	p.mu.Lock()
	for _, name := range slices.Sorted(maps.Keys(p.services)) {
		if is := p.services[name]; is.address == "" {
			p.emit(events.Event{LBPublished: &events.LBPublished{
				Service: name, Created: true, Seconds: time.Since(is.since).Seconds(), Error: "it never had a VIP",
			}})
		}
	}
	clear(p.services) // what the watch shows from now on is of no interest
	p.mu.Unlock()
	return p.worker.stop(2 * time.Second)
}

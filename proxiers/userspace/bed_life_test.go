package userspace

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"proxylab/proxiers/conformance/bed"
	"proxylab/proxiers/services"
)

func TestManyConnectionsThroughTheService(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *bed.Bed, p *bed.Proxier) {
		sync1(t, p, b.Snapshot(bed.Service{Name: "web", IP: bed.VIPs(1), Pods: []string{"local1", "local2", "remote1", "remote2"}}))
		var wg sync.WaitGroup
		for n := range 200 {
			wg.Go(func() {
				if err := exchange(b, netip.AddrPortFrom(bed.VIP(1, n%2 == 1), 80), uint64(n)); err != nil {
					t.Errorf("connection %d: %v", n, err)
				}
			})
		}
		wg.Wait()
	})
}

// exchange sends 100 kB from a pod, ends its side, and reads them back: the echo server ends when it has read all.
func exchange(b *bed.Bed, to netip.AddrPort, seed uint64) error {
	var c net.Conn
	if err := b.RunIn(bed.Client, func() (err error) {
		c, err = net.DialTimeout("tcp", to.String(), 30*time.Second)
		return err
	}); err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	data := make([]byte, 100_000)
	_, _ = rand.NewChaCha8(sha256.Sum256(fmt.Append(nil, seed))).Read(data)
	sent := make(chan error, 1)
	go func() {
		_, err := c.Write(data)
		sent <- errors.Join(err, c.(*net.TCPConn).CloseWrite())
	}()
	got, err := io.ReadAll(c)
	_, echo, _ := bytes.Cut(got, []byte("\n"))
	if err == nil && !bytes.Equal(echo, data) {
		err = fmt.Errorf("sent %d bytes, got %d others", len(data), len(echo))
	}
	return errors.Join(err, <-sent)
}

func TestHealingRestartAndCleanup(t *testing.T) {
	eachBackend(t, func(t *testing.T, b *bed.Bed, p *bed.Proxier) {
		backend := strings.TrimPrefix(t.Name()[strings.LastIndex(t.Name(), "/"):], "/")
		web := bed.Service{Name: "web", IP: bed.VIPs(1), Pods: []string{"local1"}}
		first := b.Snapshot(web)
		works := func(when string) {
			t.Helper()
			for _, v6 := range []bool{false, true} {
				if got := ask(b, "TCP", bed.From{Place: bed.Client}, netip.AddrPortFrom(bed.VIP(1, v6), 80)); got != "local1" {
					t.Errorf("%s: %s", when, got)
				}
			}
		}
		before := b.IptablesRules()
		sync1(t, p, first)
		works("at first")
		// Somebody flushes what is ours: a partial pass fails and says so, the next one heals.
		b.MustExec(bed.Node, "iptables-"+backend, "-t", "nat", "-F", chainPortals)
		web.Edit = bed.NodePort(30080)
		next := b.Next(first, web)
		next.Ports[services.Key{Namespace: "test", Service: "web", Protocol: "TCP", Family: services.IPv4}].Port = 81
		if _, err := p.Sync(t.Context(), next); err == nil || !strings.Contains(err.Error(), "-restore") {
			t.Errorf("rules are gone, but: %v", err)
		}
		sync1(t, p, b.Snapshot(web))
		works("after somebody's flush")

		p.Kill()
		p.Stop() // returns when it is gone
		if got := ask(b, "TCP", bed.From{Place: bed.Client}, netip.AddrPortFrom(bed.VIP(1, false), 80)); got != bed.KindRefused {
			t.Errorf("after a crash: %s", got)
		}
		p = b.Proxier(backend)
		sync1(t, p, first)
		works("after a restart")

		// What is not ours stays, however similar.
		for _, tool := range []string{"iptables-", "ip6tables-"} {
			b.MustExec(bed.Node, tool+backend, "-t", "nat", "-N", "KUBE-NODEPORTS")
			b.MustExec(bed.Node, tool+backend, "-t", "nat", "-I", "PREROUTING", "-m", "comment", "--comment", "not -j "+chainPortals, "-j", "KUBE-NODEPORTS")
		}
		for range 2 {
			if err := p.Cleanup(t.Context()); err != nil {
				t.Error(err)
			}
		}
		after := b.IptablesRules()
		if n := strings.Count(after, "KUBE-NODEPORTS"); n != 4 || strings.Contains(after, ":KUBE-PORTALS") || strings.Contains(after, "Service proxy") {
			t.Errorf("before:\n%s\nafter the clean-up:\n%s", before, after)
		}
		sync1(t, p, first)
		works("again after the clean-up")
	})
}

package rows

import (
	"fmt"
	"time"

	c "proxylab/proxiers/conformance"
	"proxylab/proxiers/conformance/dialer"
)

const longTime = time.Hour

var balance = []row{
	{Area: balancing, Name: "connections spread evenly over endpoints", Quick: true, Run: func(t *trial) {
		web := t.Web()
		web.Has(all...)
		t.Settle()
		each(t, func(f family, p port) { even(t, client, web.VIP(f, p), all) })
	}},
	{Area: balancing, Name: "connections to node ports spread evenly", Run: func(t *trial) {
		web := t.Web(c.WithNodePort)
		web.Has(local1, remote1, remote2)
		t.Settle()
		t.Families(func(f family) { even(t, outside, web.NodePort(f, 1, tcp), []string{local1, remote1, remote2}) })
	}},
	{Area: balancing, Name: "an endpoint that comes gets its share", Run: func(t *trial) {
		web := t.Web()
		web.Has(local1, remote1)
		t.Settle()
		t.Ask(client, web.VIP(c.IPv4, tcp)).Answers(local1, remote1)
		web.Has(all...)
		t.Settle()
		t.Families(func(f family) { even(t, client, web.VIP(f, tcp), all) })
	}},
	{Area: affinity, Name: "a client stays with its endpoint", Quick: true, Run: func(t *trial) {
		web := t.Web(c.WithAffinity(longTime), c.WithNodePort)
		web.Has(all...)
		t.Settle()
		each(t, func(f family, p port) {
			for _, from := range []string{client, client2, node1} {
				stays(t, from, web.VIP(f, p), "")
			}
			stays(t, outside, web.NodePort(f, 1, p), "")
		})
	}},
	{Area: affinity, Name: "off again", Run: func(t *trial) {
		web := t.Web(c.WithAffinity(longTime))
		web.Has(all...)
		t.Settle()
		each(t, func(f family, p port) { stays(t, client, web.VIP(f, p), "") })
		web.Edit(c.WithoutAffinity)
		t.Settle()
		each(t, func(f family, p port) { t.Ask(client, web.VIP(f, p)).Answers(all...) })
	}},
	{Area: affinity, Name: "a client whose endpoint is gone moves, and stays there", Quick: true, Run: func(t *trial) {
		web := t.Web(c.WithAffinity(longTime))
		each(t, func(f family, p port) {
			web.Has(all...)
			t.Settle()
			at := stays(t, client, web.VIP(f, p), "")
			web.Has(without(at)...)
			t.Settle()
			stays(t, client, web.VIP(f, p), at)
		})
	}},
	{Area: affinity, Name: "it is not renewed for an endpoint that is not ready", Faults: []string{"k110302"}, Run: func(t *trial) {
		web := t.Web(c.WithAffinity(longTime))
		t.Families(func(f family) {
			web.Has(all...)
			t.Settle()
			at := stays(t, client, web.VIP(f, tcp), "")
			stop := t.Steady(client, web.VIP(f, tcp), 20*time.Millisecond) // the client never pauses
			endpoints := c.Ready(without(at)...)
			endpoints = append(endpoints, c.Endpoint{Pod: at, Unready: true, Unserving: true})
			web.Endpoints(endpoints...)
			t.Settle()
			stop()
			stays(t, client, web.VIP(f, tcp), at)
		})
	}},
	{Area: affinity, Name: "it ends after its timeout", NotApplicable: notApplicable("IPVS keeps a client with its server for as long as it remembers a connection "+
		"between the two, and looks once a minute: a timeout of seconds has no effect", "ipvs"), Run: func(t *trial) {
		const timeout = time.Second
		web := t.Web(c.WithAffinity(timeout))
		web.Has(all...)
		t.Settle()
		t.Families(func(f family) {
			met := map[string]bool{}
			t.Eventually(40*time.Second, func() string {
				got := t.Ask(client, web.VIP(f, tcp)).Times(1).Among(all...)
				for pod := range got.Pods {
					met[pod] = true
				}
				if len(met) > 1 { // one in four stays by chance each time
					return ""
				}
				t.Pause(timeout + timeout/2) // the client is silent for longer than that
				return fmt.Sprintf("%s: always the same endpoint", web.VIP(f, tcp))
			})
		})
	}},
	{Area: affinity, Name: "it lasts while the client goes on", Run: func(t *trial) {
		web := t.Web(c.WithAffinity(3 * time.Second))
		web.Has(all...)
		t.Settle()
		t.Families(func(f family) {
			met := map[string]bool{}
			for began := time.Now(); time.Since(began) < 5*time.Second; t.Pause(200 * time.Millisecond) {
				for pod := range t.Ask(client, web.VIP(f, tcp)).Times(1).Among(all...).Pods {
					met[pod] = true
				}
			}
			if len(met) != 1 {
				t.Errorf("%s: a client that asks five times a second met %v within 5 s, the timeout is 3 s", web.VIP(f, tcp), met)
			}
		})
	}},
	{Area: affinity, Name: "a Service that is edited keeps it", Run: func(t *trial) {
		web := t.Web(c.WithAffinity(longTime))
		web.Has(all...)
		t.Settle()
		each(t, func(f family, p port) {
			at := stays(t, client, web.VIP(f, p), "")
			web.Has(local2, local1, remote2, remote1)
			t.Settle()
			t.Ask(client, web.VIP(f, p)).Answers(at)
		})
	}},
}

// stays asks often and expects one answer, not that of the pod which may not answer any more. It returns who it was.
func stays(t *trial, from string, to c.Target, not string) string {
	got := t.Ask(from, to).Times(20).Parallel(1).Among(all...)
	if len(got.Pods) != 1 || got.Pods[not] > 0 {
		t.Errorf("from %s to %s: want one endpoint, and not %q; met %v", from, to, not, got.Pods)
	}
	for pod := range got.Pods {
		return pod
	}
	return ""
}

// even expects a spread that is even, or random with even odds: a chi-square test at p = 0.001, twice in a row.
func even(t *trial, from string, to c.Target, pods []string) {
	var got dialer.Tally
	for range 2 {
		got = t.Ask(from, to).Times(400).Abort().Answers(pods...)
		var counts []int
		for _, pod := range pods {
			counts = append(counts, got.Pods[pod])
		}
		if c.Uneven(counts) > 0.001 {
			return
		}
	}
	t.Errorf("from %s to %s: uneven over %d connections, twice: %v", from, to, got.Total(), got.Pods)
}

// without are the backends but one.
func without(pod string) (others []string) {
	for _, p := range all {
		if p != pod {
			others = append(others, p)
		}
	}
	return others
}

package rows

import (
	"fmt"
	"regexp"
	"time"

	c "proxylab/proxiers/conformance"
	"proxylab/proxiers/conformance/dialer"
)

// inProcess is why mode userspace does not survive its process.
const inProcess = "the proxier's process carries the connections: they end with it"

var restarts = []row{
	{Area: restarting, Name: "while no proxier runs its rules serve", NotApplicable: notApplicable(inProcess, "userspace"), Alone: true, Quick: true,
		Run: func(t *trial) {
			web := t.Web(c.WithNodePort)
			web.Has(all...)
			t.Settle()
			t.StopProxier(1)
			each(t, func(f family, p port) {
				t.Ask(client, web.VIP(f, p)).Answers(all...)
				t.Ask(outside, web.NodePort(f, 1, p)).Answers(all...)
			})
			t.StartProxier(1)
			t.Settle()
			each(t, func(f family, p port) { t.Ask(client, web.VIP(f, p)).Answers(all...) })
		}},
	{Area: restarting, Name: "new connections never fail over a restart", NotApplicable: notApplicable(inProcess, "userspace"), Alone: true, Quick: true,
		Run: func(t *trial) { underTraffic(t, t.StopProxier) }},
	{Area: restarting, Name: "new connections never fail over a crash", NotApplicable: notApplicable(inProcess, "userspace"), Alone: true,
		Run: func(t *trial) { underTraffic(t, t.KillProxier) }},
	{Area: restarting, Name: "UDP flows keep their endpoint over a restart", Faults: []string{"k122740"}, NotApplicable: notApplicable(inProcess, "userspace"), Alone: true,
		Run: func(t *trial) {
			web := t.Web(c.WithNodePort)
			web.Has(all...)
			t.Settle()
			at := map[*c.Flow]string{}
			t.Families(func(f family) {
				for i := range 8 {
					for from, to := range map[string]c.Target{client: web.VIP(f, udp), outside: web.NodePort(f, 1, udp)} {
						flow := t.Open(from, to, uint16(24100+i))
						for pod := range flow.Say(0).Pods {
							at[flow] = pod
						}
					}
				}
			})
			t.StopProxier(1)
			t.StartProxier(1)
			t.Settle()
			for flow, pod := range at {
				flow.Answers(pod, "after a restart")
			}
		}},
	{Area: restarting, Name: "TCP connections go on over a restart", NotApplicable: notApplicable(inProcess, "userspace"), Alone: true,
		Run: func(t *trial) {
			web := t.Web(c.WithNodePort)
			web.Has(all...)
			t.Settle()
			var open []*c.Flow
			t.Families(func(f family) {
				open = append(open, t.Open(client, web.VIP(f, tcp), 0), t.Open(outside, web.NodePort(f, 1, tcp), 0))
			})
			t.StopProxier(1)
			t.StartProxier(1)
			t.Settle()
			for _, flow := range open {
				flow.Answers(flow.Pod, "after a restart")
			}
		}},
	{Area: restarting, Name: "what changed while no proxier ran is caught up with", Alone: true, Run: func(t *trial) {
		web, gone := t.Service("web", both), t.Service("gone", both)
		web.Has(local1)
		gone.Has(local1)
		t.Settle()
		vip := gone.VIP(c.IPv4, tcp)
		t.StopProxier(1)
		web.Has(remote1)
		gone.Remove()
		late := t.Service("late", both)
		late.Has(local2)
		t.StartProxier(1)
		t.Settle()
		each(t, func(f family, p port) {
			t.Ask(client, web.VIP(f, p)).Answers(remote1)
			t.Ask(client, late.VIP(f, p)).Answers(local2)
		})
		t.Ask(client, vip).Unanswered()
	}},
	{Area: restarting, Name: "killed at random moments during churn: no wrong answer afterwards, no leftover", Alone: true, Limit: 20 * time.Minute, Run: killed},
}

// underTraffic ends the proxier and starts it again while new connections are made, and expects every one to succeed.
func underTraffic(t *trial, end func(node int)) {
	web := t.Web(c.WithNodePort)
	web.Has(all...)
	t.Settle()
	stops := map[string]func() dialer.Tally{}
	t.Families(func(f family) {
		for _, p := range both {
			to := web.VIP(f, p)
			stops["cluster IP, "+p.Name+", "+f.String()] = t.Steady(client, to, 20*time.Millisecond)
		}
		stops["node port, "+f.String()] = t.Steady(outside, web.NodePort(f, 1, tcp), 20*time.Millisecond)
	})
	end(1)
	t.StartProxier(1)
	t.Settle()
	for what, stop := range stops {
		if got := stop(); got.Failed() > 0 {
			t.Errorf("%s: %d of %d connections failed: %v", what, got.Failed(), got.Total(), got.Failures)
		}
	}
}

// killed kills the proxier of node 1 at random moments, some of them before it has started, while endpoints and Services
// change. Then everything must be right, and after all is deleted nothing may be left that was not there before.
func killed(t *trial) {
	// With the first node port a proxier may set up what stays until its clean-up.
	t.Service("kept", both, c.WithNodePort)
	t.Settle()
	facts := func() (lines []string) {
		for _, l := range t.Facts(node1) {
			// In mode userspace the local ports that rules lead to are others after each start.
			lines = append(lines, localPort.ReplaceAllString(l, "$1"))
		}
		return lines
	}
	before := facts()
	web, affine := t.Service("web", both, c.WithNodePort), t.Service("affine", both, c.WithAffinity(longTime))
	stop := churn(t, web, affine)
	for i := range t.Kills() {
		t.KillAtRandom(1, i%3 == 2)
	}
	stop()
	web.Has(local1, remote1)
	affine.Has(remote2)
	t.Settle()
	each(t, func(f family, p port) {
		t.Ask(client, web.VIP(f, p)).Answers(local1, remote1)
		t.Ask(outside, web.NodePort(f, 1, p)).Answers(local1, remote1)
		t.Ask(client, affine.VIP(f, p)).Answers(remote2)
	})
	web.Remove()
	affine.Remove()
	t.Settle()
	// Some keep chains that nothing leads to until their next full pass.
	t.Eventually(40*time.Second, func() string {
		if left := c.DifferenceOf(before, facts()); len(left) > 0 {
			return fmt.Sprint(left)
		}
		return ""
	})
}

var localPort = regexp.MustCompile(`(--to-destination (?:10\.|\[)\S+):\d+$`)

// churn changes endpoints of Services, and a third Service, as fast as the API takes it until it is stopped.
func churn(t *trial, services ...*c.Service) (stop func()) {
	sets := [][]string{{local1}, {remote1, remote2}, all, {}, {local2, remote1}}
	round := 0
	return t.Meanwhile(func() error {
		round++
		for i, s := range services {
			if err := s.TryEndpoints(c.Ready(sets[(round+i)%len(sets)]...)...); err != nil {
				return err
			}
		}
		passing, err := t.TryService(fmt.Sprintf("passing-%d", round%7), both)
		if err != nil {
			return err
		}
		if err := passing.TryEndpoints(c.Ready(sets[round%len(sets)]...)...); err != nil {
			return err
		}
		return passing.TryRemove()
	})
}

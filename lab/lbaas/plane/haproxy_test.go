package plane_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"proxylab/lab/lbaas/plane"
)

// bout is haproxy, with the configuration that Octavia would write, and the plane with the same members, side by side.
type bout struct {
	t       *testing.T
	s       *space
	members []plane.Member
	balance string // Octavia's algorithm
	stick   bool
	proxy   string // protocol of the pool
}

var haproxyNames = map[string]string{"ROUND_ROBIN": "roundrobin", "LEAST_CONNECTIONS": "leastconn", "SOURCE_IP": "source"}

// start returns where both listen. Ports keep the bouts of one test apart.
func (b bout) start(port int) (haproxy, proxylab string) {
	b.t.Helper()
	more := ""
	if b.stick {
		more = "    stick-table type ip size 10k\n    stick on src\n"
	}
	var servers []string
	for _, m := range b.members {
		line := fmt.Sprintf("%s %s:%d weight %d", m.ID, m.Address, m.Port, m.Weight)
		switch b.proxy {
		case "PROXY":
			line += " send-proxy"
		case "PROXYV2":
			line += " send-proxy-v2"
		}
		if m.Backup {
			line += " backup"
		}
		if !m.AdminUp {
			line += " disabled"
		}
		servers = append(servers, line)
	}
	haproxy = fmt.Sprintf("10.10.0.11:%d", port)
	b.s.startHaproxy(b.t, "lb1", haproxyConfig(haproxy, haproxyNames[b.balance], more, servers))
	lb := plane.Balancer{
		ID: "lb", AdminUp: true, VIPs: []netip.Addr{netip.MustParseAddr(vip4)},
		Listeners: []plane.Listener{{ID: "l", Protocol: "TCP", Port: uint16(port), AdminUp: true, DefaultPool: "p"}},
		Pools:     []plane.Pool{{ID: "p", Protocol: "TCP", Algorithm: b.balance, AdminUp: true, Members: b.members}},
	}
	if b.proxy != "" {
		lb.Pools[0].Protocol = b.proxy
	}
	if b.stick {
		lb.Pools[0].Persistence = &plane.Persistence{Type: plane.SourceIP}
	}
	b.s.planeOf(b.t, lb, plane.Options{Names: []string{"lb1"}, Start: b.s.instances})
	return haproxy, fmt.Sprintf("%s:%d", vip4, port)
}

// members are servers in srv, with these weights.
func (s *space) members(t *testing.T, weights ...int) []plane.Member {
	var all []plane.Member
	for i, w := range weights {
		at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 10, 0, byte(21 + i)}), 9000)
		name := fmt.Sprint("m", i)
		s.serve(t, name, at)
		all = append(all, plane.Member{ID: name, Address: at.Addr(), Port: at.Port(), Weight: w, AdminUp: true})
	}
	return all
}

// sequence is who answers n clients, one after the other; held keeps their connections open until the end.
func (s *space) sequence(t *testing.T, at string, from []netip.Addr, n int, held bool) []string {
	t.Helper()
	var all []string
	for i := range n {
		d := net.Dialer{Timeout: patience, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from[i%len(from)], 0))}
		c, err := s.dial(d, "tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(patience))
		buf := make([]byte, 100)
		k, err := c.Read(buf)
		if err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		all = append(all, strings.TrimSpace(string(buf[:k])))
		if held {
			defer c.Close()
		} else {
			c.Close()
		}
	}
	return all
}

var outside = []netip.Addr{netip.MustParseAddr("10.10.0.1"), netip.MustParseAddr("10.10.0.2")}

// alias gives the fabric more addresses to be a client from.
func (s *space) alias(t *testing.T, n int) []netip.Addr {
	t.Helper()
	var all []netip.Addr
	for i := range n {
		a := netip.AddrFrom4([4]byte{10, 10, 0, byte(150 + i)})
		s.ip(t, "fabric", fmt.Sprintf("addr add %s/24 dev br0", a))
		all = append(all, a)
	}
	return all
}

// Both give the same clients to the same members, connection by connection.
func TestDistributionBesideHaproxy(t *testing.T) {
	s := newSpace(t)
	members := s.members(t, 3, 1, 2)
	clients := s.alias(t, 12)
	for i, c := range []struct {
		algorithm string
		held      bool
		stick     bool
	}{
		{"ROUND_ROBIN", false, false},
		{"ROUND_ROBIN", false, true},
		{"LEAST_CONNECTIONS", true, false},
		{"SOURCE_IP", false, false},
	} {
		t.Run(fmt.Sprintf("%s held %v stick %v", c.algorithm, c.held, c.stick), func(t *testing.T) {
			haproxy, own := bout{t: t, s: s, members: members, balance: c.algorithm, stick: c.stick}.start(7000 + i)
			const n = 60
			theirs := s.sequence(t, haproxy, clients, n, c.held)
			ours := s.sequence(t, own, clients, n, c.held)
			same(t, "distribution", count(ours), count(theirs))
			t.Logf("haproxy %v\nproxylab %v", theirs, ours)
			if !c.stick && c.algorithm != "SOURCE_IP" {
				return
			}
			for k := len(clients); k < n; k++ { // each client stays
				if ours[k] != ours[k%len(clients)] || theirs[k] != theirs[k%len(clients)] {
					t.Errorf("client %d moved", k%len(clients))
				}
			}
			if c.algorithm == "SOURCE_IP" && strings.Join(ours, "") != strings.Join(theirs, "") {
				t.Errorf("clients are at other members: %v, haproxy %v", ours, theirs)
			}
		})
	}
}

// What members hear of their clients is the same byte for byte, the client's port apart.
func TestPROXYBytesBesideHaproxy(t *testing.T) {
	s := newSpace(t)
	heard := make(chan []byte, 1)
	l := s.listen(t, netip.MustParseAddrPort("10.10.0.28:9000"))
	accept(t, l, func(c net.Conn) {
		if b, _ := io.ReadAll(c); len(b) > 0 {
			heard <- b
		}
	})
	member := plane.Member{ID: "raw", Address: netip.MustParseAddr("10.10.0.28"), Port: 9000, Weight: 1, AdminUp: true}
	for i, protocol := range []string{"PROXY", "PROXYV2"} {
		t.Run(protocol, func(t *testing.T) {
			port := 7100 + i
			haproxy, own := bout{t: t, s: s, members: []plane.Member{member}, balance: "ROUND_ROBIN", proxy: protocol}.start(port)
			got := map[string]string{}
			for _, at := range []string{haproxy, own} {
				c, err := s.dial(net.Dialer{Timeout: patience}, "tcp", at)
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprint(c, "hello")
				_ = c.(*net.TCPConn).CloseWrite()
				got[at] = withoutPort(string(<-heard), uint16(c.LocalAddr().(*net.TCPAddr).Port))
				c.Close()
			}
			// The VIPs are different: put haproxy's in place of ours.
			want := strings.ReplaceAll(got[haproxy], "10.10.0.11", vip4)
			want = strings.ReplaceAll(want, string([]byte{10, 10, 0, 11}), string(netip.MustParseAddr(vip4).AsSlice()))
			if got[own] != want {
				t.Errorf("got  %q\nwant %q", got[own], want)
			}
			t.Logf("%q", got[own])
		})
	}
}

// withoutPort puts a client's port out of a header: as text, or as two bytes at their place in a binary one.
func withoutPort(heard string, port uint16) string {
	if text := fmt.Sprintf(" %d ", port); strings.HasPrefix(heard, "PROXY ") {
		return strings.Replace(heard, text, " port ", 1)
	}
	const at = 24
	if len(heard) < at+2 || heard[at:at+2] != string([]byte{byte(port >> 8), byte(port)}) {
		return "no port in " + heard
	}
	return heard[:at] + "??" + heard[at+2:]
}

// A member that refuses, one that is drained, and one that is switched off cost both the same.
func TestTroubleBesideHaproxy(t *testing.T) {
	s := newSpace(t)
	all := s.members(t, 1, 1, 1)
	dead := plane.Member{ID: "dead", Address: netip.MustParseAddr("10.10.0.27"), Port: 9, Weight: 1, AdminUp: true}
	drained, off, backup := all[1], all[2], all[2]
	drained.Weight, off.AdminUp, backup.Backup = 0, false, true
	for i, c := range []struct {
		name      string
		members   []plane.Member
		algorithm string
		stick     bool
	}{
		{"redispatch in turn", []plane.Member{dead, all[0], all[1]}, "ROUND_ROBIN", false},
		{"redispatch by connections", []plane.Member{dead, all[0]}, "LEAST_CONNECTIONS", false},
		{"redispatch with persistence", []plane.Member{dead, all[0]}, "ROUND_ROBIN", true},
		{"hashed to one that works", []plane.Member{dead, all[0]}, "SOURCE_IP", false},
		{"hashed to a dead one", []plane.Member{all[0], dead}, "SOURCE_IP", false},
		{"drain", []plane.Member{all[0], drained}, "ROUND_ROBIN", false},
		{"switched off", []plane.Member{all[0], off}, "LEAST_CONNECTIONS", false},
		{"backup beside", []plane.Member{all[0], backup}, "ROUND_ROBIN", false},
		{"backup alone", []plane.Member{drained, backup}, "ROUND_ROBIN", false},
		{"nobody", []plane.Member{drained, off}, "ROUND_ROBIN", false},
		{"all dead", []plane.Member{dead}, "ROUND_ROBIN", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			haproxy, own := bout{t: t, s: s, members: c.members, balance: c.algorithm, stick: c.stick}.start(7200 + i)
			n := 6
			if strings.Contains(c.name, "dead") {
				n = 1 // it takes seconds
			}
			var theirs, ours []string
			var took [2]time.Duration
			var wg sync.WaitGroup
			wg.Go(func() {
				began := time.Now()
				theirs = s.sequence(t, haproxy, outside[:1], n, false)
				took[0] = time.Since(began)
			})
			wg.Go(func() {
				began := time.Now()
				ours = s.sequence(t, own, outside[:1], n, false)
				took[1] = time.Since(began)
			})
			wg.Wait()
			t.Logf("haproxy %v in %s, proxylab %v in %s", theirs, took[0], ours, took[1])
			same(t, "distribution", count(ours), count(theirs))
		})
	}
}

// A member that is drained keeps those who belong to it, in both.
func TestDrainBesideHaproxy(t *testing.T) {
	s := newSpace(t)
	members := s.members(t, 1, 1)
	haproxy := "10.10.0.11:7300"
	config := haproxyConfig(haproxy, "roundrobin", "    stick-table type ip size 10k\n    stick on src\n", []string{
		"m0 10.10.0.21:9000 weight 1", "m1 10.10.0.22:9000 weight 1"})
	h := s.startHaproxy(t, "lb1", config)
	lb := plane.Balancer{
		ID: "lb", AdminUp: true, VIPs: []netip.Addr{netip.MustParseAddr(vip4)},
		Listeners: []plane.Listener{{ID: "l", Protocol: "TCP", Port: 7300, AdminUp: true, DefaultPool: "p"}},
		Pools: []plane.Pool{{ID: "p", Protocol: "TCP", Algorithm: "ROUND_ROBIN", AdminUp: true, Members: members,
			Persistence: &plane.Persistence{Type: plane.SourceIP}}},
	}
	set := s.planeOf(t, lb, plane.Options{Names: []string{"lb1"}, Start: s.instances})
	clients := s.alias(t, 4)
	for _, at := range []string{haproxy, fmt.Sprint(vip4, ":7300")} {
		before := s.sequence(t, at, clients[:2], 2, false)
		if before[0] == before[1] {
			t.Fatal(before)
		}
		if at == haproxy {
			admin(t, h.socket, "set weight b/m0 0")
		} else {
			lb.Pools[0].Members[0].Weight = 0
			if err := set.Apply(context.Background(), []plane.Balancer{lb}); err != nil {
				t.Fatal(err)
			}
		}
		if after := s.sequence(t, at, clients[:2], 2, false); after[0] != before[0] || after[1] != before[1] {
			t.Errorf("%s: persistent clients went from %v to %v", at, before, after)
		}
		same(t, at+": new clients", count(s.sequence(t, at, clients[2:], 2, false)), map[string]int{"m1": 2})
	}
}

func admin(t *testing.T, socket, command string) {
	t.Helper()
	c, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintln(c, command)
	if b, err := io.ReadAll(c); err != nil || strings.TrimSpace(string(b)) != "" {
		t.Fatalf("haproxy: %q, %v", b, err)
	}
}

// The inspect delay alone delays nothing: Octavia writes no rule that inspects, so haproxy does not wait, and neither do we.
func TestInspectDelayBesideHaproxy(t *testing.T) {
	s := newSpace(t)
	members := s.members(t, 1)
	haproxy := "10.10.0.11:7400"
	config := haproxyConfig(haproxy, "roundrobin", "", []string{"m0 10.10.0.21:9000 weight 1"})
	config = strings.Replace(config, "    timeout client", "    tcp-request inspect-delay 60000\n    timeout client", 1)
	s.startHaproxy(t, "lb1", config)
	s.planeOf(t, plane.Balancer{
		ID: "lb", AdminUp: true, VIPs: []netip.Addr{netip.MustParseAddr(vip4)},
		Listeners: []plane.Listener{{ID: "l", Protocol: "TCP", Port: 7400, AdminUp: true, DefaultPool: "p", Timeouts: plane.Timeouts{TCPInspect: time.Minute}}},
		Pools:     []plane.Pool{{ID: "p", Protocol: "TCP", Algorithm: "ROUND_ROBIN", AdminUp: true, Members: members}},
	}, plane.Options{Names: []string{"lb1"}, Start: s.instances})
	for _, at := range []string{haproxy, fmt.Sprint(vip4, ":7400")} { // patience is shorter than the delay
		same(t, at, count(s.sequence(t, at, outside[:1], 2, false)), map[string]int{"m0": 2})
	}
}

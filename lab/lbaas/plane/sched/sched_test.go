package sched_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"proxylab/lab/lbaas/plane/sched"
)

var client = netip.MustParseAddrPort("10.0.0.1:1000")

func picker(t interface{ Fatal(...any) }, algorithm string, servers ...sched.Server) *sched.Picker {
	p, err := sched.New(algorithm)
	if err != nil {
		t.Fatal(err)
	}
	p.Update(servers)
	return p
}

func TestUnknownAlgorithm(t *testing.T) {
	if _, err := sched.New("RANDOM"); err == nil || !strings.Contains(err.Error(), "RANDOM") {
		t.Error(err)
	}
}

// picks returns what n picks without Done give, one letter each.
func picks(p *sched.Picker, n int) string {
	var b strings.Builder
	for range n {
		id, ok := p.Pick(client, "")
		if !ok {
			id = "-"
		}
		b.WriteString(id)
	}
	return b.String()
}

func TestPick(t *testing.T) {
	up := func(id string, weight int) sched.Server { return sched.Server{ID: id, Weight: weight, Usable: true} }
	backup := func(id string) sched.Server { return sched.Server{ID: id, Weight: 1, Usable: true, Backup: true} }
	for _, c := range []struct {
		name, algorithm string
		servers         []sched.Server
		want            string
	}{
		{"in turn", sched.RoundRobin, []sched.Server{up("a", 1), up("b", 1), up("c", 1)}, "abcabc"},
		{"smooth by weight", sched.RoundRobin, []sched.Server{up("a", 5), up("b", 1), up("c", 1)}, "aabacaa"},
		{"weight 0 drains", sched.RoundRobin, []sched.Server{up("a", 0), up("b", 1)}, "bbb"},
		{"down", sched.RoundRobin, []sched.Server{{ID: "a", Weight: 1}, up("b", 1)}, "bbb"},
		{"none", sched.RoundRobin, nil, "--"},
		{"backup waits", sched.RoundRobin, []sched.Server{up("a", 1), backup("b")}, "aaa"},
		{"all backups, then", sched.RoundRobin, []sched.Server{{ID: "a", Weight: 1}, backup("b"), backup("c")}, "bcbc"},
		{"backup for drained", sched.RoundRobin, []sched.Server{up("a", 0), backup("b")}, "bb"},
		{"fewest first", sched.LeastConnections, []sched.Server{up("a", 1), up("b", 1), up("c", 1)}, "abcabc"},
		{"fewest by weight", sched.LeastConnections, []sched.Server{up("a", 2), up("b", 1)}, "abaabaa"},
		{"one source", sched.SourceIP, []sched.Server{up("a", 1), up("b", 1)}, "bbb"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := picks(picker(t, c.algorithm, c.servers...), len(c.want)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func someServers(t *rapid.T) []sched.Server {
	n := rapid.IntRange(1, 8).Draw(t, "servers")
	servers := make([]sched.Server, n)
	for i := range servers {
		servers[i] = sched.Server{
			ID: fmt.Sprint(i), Weight: rapid.IntRange(0, 10).Draw(t, "weight"),
			Backup: rapid.Bool().Draw(t, "backup"), Usable: rapid.Bool().Draw(t, "usable"),
		}
	}
	return servers
}

// choosable are those that may get new clients.
func choosable(servers []sched.Server) map[string]int {
	for _, backup := range []bool{false, true} {
		ids := map[string]int{}
		for _, s := range servers {
			if s.Usable && s.Weight > 0 && s.Backup == backup {
				ids[s.ID] = s.Weight
			}
		}
		if len(ids) > 0 {
			return ids
		}
	}
	return nil
}

// Over one round every server is chosen as often as it weighs, whatever was asked before.
func TestRoundRobinIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		servers := someServers(t)
		want := choosable(servers)
		p := picker(t, sched.RoundRobin, servers...)
		total := 0
		for _, w := range want {
			total += w
		}
		for range rapid.IntRange(1, 3).Draw(t, "rounds") {
			got := map[string]int{}
			for range total {
				id, ok := p.Pick(client, "")
				if !ok {
					t.Fatal("none")
				}
				got[id]++
			}
			if fmt.Sprint(got) != fmt.Sprint(want) && total > 0 {
				t.Fatalf("got %v, want %v", got, want)
			}
		}
	})
}

// Whatever happens: only servers that may be chosen are, the avoided one only where it is alone, a source stays where it
// is (be it avoided), and least connections never goes to one that has more to do than another.
func TestPickKeepsToTheRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		algorithm := rapid.SampledFrom([]string{sched.RoundRobin, sched.LeastConnections, sched.SourceIP, sched.SourceIPPort}).Draw(t, "algorithm")
		servers := someServers(t)
		p := picker(t, algorithm, servers...)
		stays := map[netip.AddrPort]string{}
		open := []string{}
		t.Repeat(map[string]func(*rapid.T){
			"update": func(t *rapid.T) {
				servers = someServers(t)
				p.Update(servers)
				clear(stays)
			},
			"done": func(t *rapid.T) {
				if len(open) > 0 {
					p.Done(open[0])
					open = open[1:]
				}
			},
			"pick": func(t *rapid.T) {
				from := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, rapid.Byte().Draw(t, "client")}), 1)
				avoid := rapid.SampledFrom([]string{"", "0", "1"}).Draw(t, "avoid")
				may := choosable(servers)
				before := map[string]float64{}
				for id, w := range may {
					before[id] = float64(p.Inflight(id)) / float64(w)
				}
				id, ok := p.Pick(from, avoid)
				if ok != (len(may) > 0) {
					t.Fatalf("%v of %v", ok, may)
				}
				if !ok {
					return
				}
				open = append(open, id)
				if _, allowed := may[id]; !allowed || id == avoid && len(may) > 1 && !strings.HasPrefix(algorithm, "SOURCE") {
					t.Fatalf("%s of %v avoiding %q", id, may, avoid)
				}
				switch {
				case algorithm == sched.LeastConnections && avoid == "":
					for other, load := range before {
						// One connection more is what both would have after it.
						if before[id] > load+1/float64(may[other]) {
							t.Fatalf("%s of %v", id, before)
						}
					}
				case strings.HasPrefix(algorithm, "SOURCE"):
					if was := stays[from]; was != "" && was != id {
						t.Fatalf("%s went to %s and %s", from, was, id)
					}
					stays[from] = id
				}
			},
		})
	})
}

func TestSourcesSpreadByWeight(t *testing.T) {
	p := picker(t, sched.SourceIP, sched.Server{ID: "a", Weight: 3, Usable: true}, sched.Server{ID: "b", Weight: 1, Usable: true})
	got := map[string]int{}
	for i := range 256 {
		id, _ := p.Pick(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 1), "")
		got[id]++
	}
	if got["a"] != 192 || got["b"] != 64 {
		t.Error(got)
	}
}

func TestTable(t *testing.T) {
	now := time.Unix(0, 0)
	table := sched.NewTable[string](2, time.Minute, func() time.Time { return now })
	get := func(key string) string {
		id, _ := table.Get(key)
		return id
	}
	if !table.Put("x", "1") || table.Put("x", "1") || !table.Put("x", "2") || get("x") != "2" {
		t.Error("an entry does not change as it should")
	}
	table.Put("y", "1")
	get("x")
	table.Put("z", "1") // y was used longest ago
	if get("y") != "" || get("x") != "2" || get("z") != "1" || table.Len() != 2 {
		t.Error("the wrong entry made room", table.All())
	}
	now = now.Add(50 * time.Second)
	get("x")
	now = now.Add(50 * time.Second)
	if get("x") != "2" || get("z") != "" {
		t.Error("entries do not last from their last use", table.All())
	}
	table.Delete("x")
	if table.Len() != 0 {
		t.Error(table.All())
	}
}

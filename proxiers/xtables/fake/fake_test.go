package fake_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"proxylab/proxiers/conformance/bed"
	"proxylab/proxiers/xtables"
	"proxylab/proxiers/xtables/fake"
)

const start = "*nat\n:A - [0:0]\n:B - [0:0]\n-A A -p tcp -j B\nCOMMIT\n"

// Inputs after start, and the line that is refused; 0: none.
var inputs = []struct {
	name, input string
	refused     int
}{
	{"rewrite", "*nat\n:A - [0:0]\n-A A -j RETURN\nCOMMIT\n", 0},
	{"chain of its own after use", "*nat\n:C - [0:0]\n-A C -j B\n-I A -j C\nCOMMIT\n", 0},
	{"delete by spec", "*nat\n-D A -p tcp -j B\n-X B\nCOMMIT\n", 0},
	{"empty and delete", "*nat\n:A - [0:0]\n:B - [0:0]\n-X A\n-X B\nCOMMIT\n", 0},
	{"two tables", "*filter\n:C - [0:0]\nCOMMIT\n*nat\n:C - [0:0]\nCOMMIT\n", 0},
	{"unknown target", "*nat\n-A A -j NOWHERE\nCOMMIT\n", 2},
	{"unknown chain", "*nat\n-A NOWHERE -j B\nCOMMIT\n", 2},
	{"rule that is not there", "*nat\n-D A -p udp -j B\nCOMMIT\n", 2},
	{"delete what is not there", "*nat\n-X NOWHERE\nCOMMIT\n", 2},
	{"delete what is in use", "*nat\n-X B\nCOMMIT\n", 2},
	{"delete what has rules", "*nat\n:C - [0:0]\n-A C -j RETURN\n-X C\nCOMMIT\n", 4},
	{"make it twice", "*nat\n-N A\nCOMMIT\n", 2},
	{"name too long", "*nat\n:AAAAAAAAAABBBBBBBBBBCCCCCCCCCC - [0:0]\nCOMMIT\n", 2},
	{"no table", ":A - [0:0]\n", 1},
	{"DNAT where there is none", "*filter\n-A INPUT -p tcp -j DNAT --to-destination 192.0.2.1:80\nCOMMIT\n", 2},
	{"unknown option", "*nat\n-A A --no-such-option -j B\nCOMMIT\n", 2},
}

func TestRefusals(t *testing.T) {
	ctx := context.Background()
	for _, c := range inputs {
		t.Run(c.name, func(t *testing.T) {
			tables := fake.New()
			if err := tables.Restore(ctx, []byte(start)); err != nil {
				t.Fatal(err)
			}
			before := tables.Text()
			err := tables.Restore(ctx, []byte(c.input))
			var e *xtables.RestoreError
			switch {
			case c.refused == 0 && err != nil:
				t.Error(err)
			case c.refused > 0 && (!errors.As(err, &e) || e.Line != c.refused):
				t.Errorf("refused line is %d: %v", c.refused, err)
			case c.refused > 0 && tables.Text() != before:
				t.Errorf("half done:\n%s", tables.Text())
			}
		})
	}
}

// The real tools accept and refuse the same.
func TestRealToolsAgree(t *testing.T) {
	for _, tool := range []string{"iptables-legacy-restore", "iptables-nft-restore"} {
		t.Run(tool, func(t *testing.T) {
			b := bed.New(t, bed.Pods(0, 0))
			clear := "*nat\nCOMMIT\n*filter\nCOMMIT\n"
			for _, c := range inputs {
				for _, input := range []string{clear, start} {
					args := []string{tool}
					if input == start {
						args = append(args, "--noflush")
					}
					if _, err := b.Exec(bed.Node, input, args...); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := b.Exec(bed.Node, c.input, tool, "--noflush"); (err != nil) != (c.refused > 0) {
					t.Errorf("%s: %v", c.name, err)
				}
			}
		})
	}
}

func TestCommitIsByTable(t *testing.T) {
	tables := fake.New()
	err := tables.Restore(context.Background(), []byte("*filter\n:C - [0:0]\nCOMMIT\n*nat\n:C - [0:0]\n-A C -j NOWHERE\nCOMMIT\n"))
	if err == nil || len(tables.Chains("filter")) != 1 || len(tables.Chains("nat")) != 0 {
		t.Errorf("%v\n%s", err, tables.Text())
	}
	if err := tables.Restore(context.Background(), []byte("*nat\n:C - [0:0]\n")); err == nil || len(tables.Chains("nat")) != 0 {
		t.Errorf("without COMMIT: %v", err)
	}
}

func TestTrace(t *testing.T) {
	tables := fake.New()
	err := tables.Restore(context.Background(), []byte(strings.Join([]string{"*nat", ":S - [0:0]", ":E - [0:0]",
		"-A PREROUTING -j S", "-A S -d 10.96.0.1/32 -p tcp -m tcp --dport 80 -j E", "-A E ! -s 10.244.0.0/16 -j MARK --set-xmark 0x4000/0x4000",
		"-A E -p tcp -m statistic --mode random --probability 0.25 -j DNAT --to-destination 10.244.0.1:8080",
		"-A E -p tcp -j DNAT --to-destination 10.244.0.2:8080",
		"-A POSTROUTING -m mark --mark 0x4000/0x4000 -j MASQUERADE --random-fully", "COMMIT", ""}, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	at := netip.MustParseAddrPort
	got := tables.Trace(fake.Packet{Src: at("10.10.0.1:4000"), Dst: at("10.96.0.1:80"), Proto: "tcp"})
	a := fake.Outcome{Verdict: "accepted", To: at("10.244.0.1:8080"), Masq: true}
	b := fake.Outcome{Verdict: "accepted", To: at("10.244.0.2:8080"), Masq: true}
	if len(got) != 2 || got[a] != 0.25 || got[b] != 0.75 {
		t.Errorf("%v", got)
	}
	got = tables.Trace(fake.Packet{Src: at("10.244.0.9:4000"), Dst: at("10.96.0.1:81"), Proto: "tcp"})
	if len(got) != 1 || got[fake.Outcome{Verdict: "accepted", To: at("10.96.0.1:81")}] != 1 {
		t.Errorf("%v", got)
	}
}

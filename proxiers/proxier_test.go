package proxiers

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"proxylab/proxiers/conformance/bed"
)

func TestLookup(t *testing.T) {
	for _, p := range All() {
		got, err := Lookup(p.Name)
		if err != nil || got != p || p.Mode == "" || p.Summary == "" || p.Native == strings.HasPrefix(p.Name, "kube-proxy/") {
			t.Errorf("%+v, %v", got, err)
		}
	}
	_, err := Lookup("iptable")
	for _, p := range All() {
		if err == nil || !strings.Contains(err.Error(), p.Name) {
			t.Errorf("%s is not named in: %v", p.Name, err)
		}
	}
	for _, err := range []error{
		Run(t.Context(), Options{Name: "x"}),
		Preflight(t.Context(), "x", ""),
		second(Cleanup(t.Context(), Options{Name: "x"})),
		second(Leftovers(t.Context(), "x")),
	} {
		if err == nil || !strings.Contains(err.Error(), `"x"`) {
			t.Errorf("an unknown proxier: %v", err)
		}
	}
}

func second(_ []string, err error) error { return err }

func TestPreflightWithoutIPVS(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to try rules in a network namespace")
	}
	if _, err := os.Stat("/proc/net/ip_vs"); err == nil {
		t.Skip("this kernel has IPVS")
	}
	if err := Preflight(t.Context(), "kube-proxy/ipvs", ""); err == nil || !strings.Contains(err.Error(), "ip_vs") {
		t.Errorf("%v", err)
	}
}

func TestVirtualServers(t *testing.T) {
	got, err := parseVirtualServers(strings.NewReader(`IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
TCP  0A60000A:0050 rr
  -> 0AF40102:1F90      Masq    1      0          0
UDP  [fd00:0010:0096:0000:0000:0000:0000:000a]:0035 rr persistent 10800
FWM  00000001 wlc
`))
	want := []string{"virtual server TCP 10.96.0.10:80", "virtual server UDP [fd00:10:96::a]:53"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	for _, bad := range []string{"TCP 0A60000A:zz rr", "TCP nothex:0050 rr", "TCP [x]:0050 rr"} {
		if _, err := parseVirtualServers(strings.NewReader(bad)); err == nil {
			t.Errorf("%q passes", bad)
		}
	}
}

// TestCleanupOfIPVS makes by hand what kube-proxy's mode ipvs leaves, as this must also work where the kernel has no IPVS.
func TestCleanupOfIPVS(t *testing.T) {
	b := bed.New(t, bed.Pods(0, 0))
	var want []string
	for _, tool := range []string{"iptables-legacy", "iptables-nft"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(tool + " is not installed")
		}
		_, err := b.Exec(bed.Node, `*nat
:KUBE-SERVICES - [0:0]
:KUBE-NODE-PORT - [0:0]
:KUBE-LOAD-BALANCER - [0:0]
:SOMEBODY - [0:0]
-A PREROUTING -m comment --comment "foreign, says -j KUBE-NODE-PORT" -j SOMEBODY
-A PREROUTING -j KUBE-SERVICES
-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODE-PORT
-A KUBE-SERVICES -j KUBE-LOAD-BALANCER
-A KUBE-NODE-PORT -p tcp -j RETURN
COMMIT
*filter
:KUBE-IPVS-FILTER - [0:0]
-A INPUT -m comment --comment "kubernetes ipvs access filter" -j KUBE-IPVS-FILTER
COMMIT
`, tool+"-restore", "--noflush")
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, tool+" filter KUBE-IPVS-FILTER", tool+" nat KUBE-LOAD-BALANCER", tool+" nat KUBE-NODE-PORT")
	}
	b.MustExec(bed.Node, "ip", "link", "add", "kube-ipvs0", "type", "bridge") // kube-proxy's is a dummy, which not every kernel has
	want = append(want, "link kube-ipvs0")
	if _, err := b.Exec(bed.Node, "", "ipset", "create", "KUBE-CLUSTER-IP", "hash:ip,port"); err == nil {
		b.MustExec(bed.Node, "ipset", "create", "SOMEBODY", "hash:ip,port")
		b.MustExec(bed.Node, "iptables-legacy", "-t", "nat", "-A", "KUBE-NODE-PORT", "-m", "set", "--match-set", "KUBE-CLUSTER-IP", "dst,dst", "-j", "ACCEPT")
		want = append(want, "ipset KUBE-CLUSTER-IP")
	} else {
		t.Logf("without sets: %v", err)
	}
	inNode := func(f func(context.Context) ([]string, error)) (list []string) {
		t.Helper()
		if err := b.RunInNode(func() (err error) { list, err = f(t.Context()); return err }); err != nil {
			t.Error(err)
		}
		slices.Sort(list)
		return list
	}
	slices.Sort(want)
	if got := inNode(ipvsLeftovers); !slices.Equal(got, want) {
		t.Errorf("before: %q\nwant %q", got, want)
	}
	for range 2 {
		inNode(func(ctx context.Context) ([]string, error) { return nil, cleanupIPVS(ctx) })
		if got := inNode(ipvsLeftovers); len(got) > 0 {
			t.Errorf("left: %q", got)
		}
	}
	for _, tool := range []string{"iptables-legacy", "iptables-nft"} {
		text := b.MustExec(bed.Node, tool+"-save")
		if strings.Contains(text, "\n-A INPUT") || strings.Count(text, "-j SOMEBODY") != 1 || !strings.Contains(text, ":KUBE-SERVICES") {
			t.Errorf("%s", text)
		}
	}
	if sets, _ := b.Exec(bed.Node, "", "ipset", "list", "-n"); strings.Contains(strings.Join(want, " "), "ipset") && sets != "SOMEBODY\n" {
		t.Errorf("sets %q", sets)
	}
}

func TestLeftoversNeedAMode(t *testing.T) {
	if err := second(Leftovers(t.Context(), "")); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

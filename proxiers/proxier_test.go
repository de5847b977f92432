package proxiers

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"proxylab/proxiers/conformance/bed"
	"proxylab/proxiers/ipvs"
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
	for _, name := range []string{"ipvs", "kube-proxy/ipvs"} {
		err := Preflight(t.Context(), name, "")
		if err == nil || !strings.Contains(err.Error(), "modprobe ip_vs") || !strings.Contains(err.Error(), "--fallback iptables") {
			t.Errorf("%v", err)
		}
		runs, refusal, err := Choose(t.Context(), Options{Name: name, Backend: "legacy", Fallback: "iptables"})
		if err != nil || runs != "iptables" || refusal == nil {
			t.Errorf("%s: %q, %v, %v", name, runs, refusal, err)
		}
	}
	if _, _, err := Choose(t.Context(), Options{Name: "ipvs", Fallback: "kube-proxy/ipvs"}); err == nil || !strings.Contains(err.Error(), "nor can its fallback") {
		t.Errorf("%v", err)
	}
}

func TestCleanupSparesWhatTookOver(t *testing.T) {
	for _, o := range []Options{
		{Name: "ipvs", TakenOverBy: "kube-proxy/ipvs"}, {Name: "iptables", TakenOverBy: "iptables"},
		{Name: "ipvs", Fallback: "kube-proxy/ipvs", TakenOverBy: "ipvs"},
	} {
		if left, err := Cleanup(t.Context(), o); err != nil || left != nil {
			t.Errorf("%+v: %q, %v", o, left, err)
		}
	}
	if err := second(Cleanup(t.Context(), Options{Name: "ipvs", TakenOverBy: "y"})); err == nil || !strings.Contains(err.Error(), `"y"`) {
		t.Errorf("%v", err)
	}
}

// bothIPTables are the programs of both back ends. Rules of one alone are no test of a clean-up that has to find both.
func bothIPTables(t *testing.T) []string {
	t.Helper()
	tools := []string{"iptables-legacy", "iptables-nft"}
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%v: hack/deps.sh test installs it", err)
		}
	}
	return tools
}

// TestCleanupOfIPVS makes by hand what kube-proxy's mode ipvs leaves, as this must also work where the kernel has no IPVS.
func TestCleanupOfIPVS(t *testing.T) {
	b := bed.New(t, bed.Pods(0, 0))
	var want []string
	for _, tool := range bothIPTables(t) {
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
	if got := inNode(ipvs.Leftovers); !slices.Equal(got, want) {
		t.Errorf("before: %q\nwant %q", got, want)
	}
	for range 2 {
		inNode(func(ctx context.Context) ([]string, error) { return nil, ipvs.Cleanup(ctx, false, slog.Default()) })
		if got := inNode(ipvs.Leftovers); len(got) > 0 {
			t.Errorf("left: %q", got)
		}
	}
	for _, tool := range bothIPTables(t) {
		text := b.MustExec(bed.Node, tool+"-save")
		if strings.Contains(text, "\n-A INPUT") || strings.Count(text, "-j SOMEBODY") != 1 || strings.Contains(text, ":KUBE-SERVICES") {
			t.Errorf("%s", text)
		}
	}
	if sets, _ := b.Exec(bed.Node, "", "ipset", "list", "-n"); strings.Contains(strings.Join(want, " "), "ipset") && sets != "SOMEBODY\n" {
		t.Errorf("sets %q", sets)
	}
}

// TestTakeOver makes by hand what kube-proxy leaves in each mode: it goes, and what is the new proxier's own or somebody else's stays.
func TestTakeOver(t *testing.T) {
	b := bed.New(t, bed.Pods(0, 0))
	const theirs = "*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-SVC-TCOU7JCQXEZGVUNU - [0:0]\n-A PREROUTING -j KUBE-SERVICES\n" +
		"-A KUBE-SERVICES -d 10.96.0.1/32 -j KUBE-SVC-TCOU7JCQXEZGVUNU\n-A POSTROUTING -s 10.9.0.0/16 -j MASQUERADE\nCOMMIT\n"
	for _, tool := range bothIPTables(t) {
		if _, err := b.Exec(bed.Node, theirs, tool+"-restore", "--noflush"); err != nil {
			t.Fatal(err)
		}
	}
	b.MustExec(bed.Node, "ip", "link", "add", "kube-ipvs0", "type", "bridge")
	for _, table := range []string{"kube-proxy", "proxylab", "somebody"} {
		b.MustExec(bed.Node, "nft", "add", "table", "ip", table)
	}
	by, err := Lookup("nftables")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.RunInNode(func() error {
		left, err := TakeOver(t.Context(), by, slog.Default())
		if len(left) > 0 {
			t.Errorf("left: %q", left)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, tool := range bothIPTables(t) {
		text := b.MustExec(bed.Node, tool+"-save")
		if strings.Contains(text, "KUBE-") || !strings.Contains(text, "10.9.0.0/16") {
			t.Errorf("%s: %s", tool, text)
		}
	}
	tables := b.MustExec(bed.Node, "nft", "list", "tables", "ip")
	if strings.Contains(tables, " kube-proxy\n") || !strings.Contains(tables, " proxylab\n") || !strings.Contains(tables, " somebody\n") {
		t.Errorf("tables: %s", tables)
	}
}

func TestLeftoversNeedAMode(t *testing.T) {
	if err := second(Leftovers(t.Context(), "")); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

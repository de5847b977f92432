package kubeproxy

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"proxylab/proxiers/runner"
)

// inNode names the subject that this process, a child in a network and mount namespace of its own, has to play:
// kube-proxy can run only once in a process.
const inNode = "KUBEPROXY_TEST_SUBJECT"

func TestRun(t *testing.T) {
	for _, subject := range []string{"iptables/legacy", "iptables/nft", "iptables/auto", "nftables/"} {
		t.Run(subject, func(t *testing.T) {
			mode, backend, _ := strings.Cut(subject, "/")
			if os.Geteuid() != 0 {
				t.Skip("needs root to make a network namespace")
			}
			if err := Preflight(t.Context(), mode, backend); err != nil {
				t.Skip(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestInNode$", "-test.v")
			cmd.Env = append(os.Environ(), inNode+"="+subject)
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS}
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "--- PASS: TestInNode") {
				t.Fatalf("%v\n%s", err, out)
			}
		})
	}
}

// TestInNode runs kube-proxy against a fake API on a node with one Service, whose endpoint is on the node itself.
func TestInNode(t *testing.T) {
	subject := os.Getenv(inNode)
	if subject == "" {
		t.Skip("is run by TestRun in a namespace of its own")
	}
	mode, backend, _ := strings.Cut(subject, "/")
	makeNode(t)
	api, kubeconfig := newFakeAPI(t)
	api.put("nodes", node())
	api.put("services", service(80))
	api.put("endpointslices", slice(discoveryv1.AddressTypeIPv4, "10.244.1.2"))
	api.put("endpointslices", slice(discoveryv1.AddressTypeIPv6, "fd00:10:244:1::2"))
	for _, pod := range []string{"10.244.1.2", "10.244.1.3", "fd00:10:244:1::2"} {
		answer(t, pod)
	}

	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, Options{Mode: mode, Backend: backend, Node: "node1", Kubeconfig: kubeconfig,
			MinSyncPeriod: 100 * time.Millisecond, SyncPeriod: 30 * time.Second, Verbosity: 2, Reports: write})
		write.Close()
	}()
	reports := scan(read)

	first := next(t, reports)
	checkReport(t, first, mode, backend)
	if !first.Full {
		t.Errorf("first report is not of a full sync: %+v", first)
	}
	// The first report without an error promises that both families work.
	for _, vip := range []string{"10.96.0.10", "fd00:10:96::10"} {
		if got := ask(t, vip); got == "" {
			t.Errorf("%s does not answer after the first report", vip)
		}
	}
	checkRules(t, mode, backend)

	api.put("endpointslices", slice(discoveryv1.AddressTypeIPv4, "10.244.1.3"))
	checkReport(t, next(t, reports), mode, backend)
	if got := ask(t, "10.96.0.10"); got != "10.244.1.3" {
		t.Errorf("after the endpoint changed %s answers", got)
	}
	healthy(t)
	if backend == "legacy" {
		checkFailure(t, api, reports)
	}

	stop := time.Now()
	cancel()
	for range reports {
	}
	if err := <-ended; err != nil {
		t.Errorf("stopped: %v", err)
	}
	t.Logf("stopped within %v", time.Since(stop))
	checkCleanup(t, mode)
}

func checkReport(t *testing.T, r runner.Report, mode, backend string) {
	t.Helper()
	t.Logf("%+v", r)
	if r.Error != "" || r.Seconds <= 0 || r.CPUSeconds <= 0 || time.Since(r.Time) > time.Minute {
		t.Errorf("report %+v", r)
	}
	switch {
	case mode == "nftables" && (r.Backend != "" || r.Objects != nil):
		t.Errorf("report says what was not measured: %+v", r)
	case mode == "iptables" && (r.Objects["rules"] < 20 || r.Backend == "" || r.Backend != backend && backend != "auto"):
		t.Errorf("report %+v of back end %s", r, backend)
	}
}

// checkRules looks for kube-proxy's chains where, and only where, the back end keeps them.
func checkRules(t *testing.T, mode, backend string) {
	t.Helper()
	commands := map[string][]string{
		"legacy":   {"xtables-legacy-multi", "iptables-save"},
		"nft":      {"xtables-nft-multi", "iptables-save"},
		"nftables": {"nft", "list", "ruleset"},
	}
	want := backend
	if mode == "nftables" {
		want = mode
	}
	for name, args := range commands {
		out, err := exec.Command(args[0], args[1:]...).Output()
		if err != nil {
			t.Errorf("%v: %v", args, err)
		}
		text := string(out)
		switch {
		case name == "nftables" && mode == name && !strings.Contains(text, "table ip6 kube-proxy"):
			t.Errorf("no rules in\n%s", text)
		case name == want && mode == "iptables" && !strings.Contains(text, ":KUBE-SVC-"):
			t.Errorf("no rules in %s", text)
		case name != "nftables" && want != "auto" && name != want && strings.Contains(text, ":KUBE-SVC-"):
			t.Errorf("rules in back end %s too:\n%s", name, text)
		}
	}
}

// checkFailure: a sync that could not write its rules is reported, and so is the one that makes up for it.
func checkFailure(t *testing.T, api *fakeAPI, reports <-chan runner.Report) {
	t.Helper()
	tool := "/run/proxylab-iptables-legacy/iptables-restore"
	multi, err := os.Readlink(tool)
	if err != nil {
		t.Fatal(err)
	}
	replace := func(target string) {
		if err := errors.Join(os.Remove(tool), os.Symlink(target, tool)); err != nil {
			t.Fatal(err)
		}
	}
	replace("/bin/false")
	api.put("endpointslices", slice(discoveryv1.AddressTypeIPv4, "10.244.1.2"))
	if r := next(t, reports); r.Error == "" {
		t.Errorf("no error reported: %+v", r)
	} else {
		t.Log(r.Error)
	}
	replace(multi)
	api.put("endpointslices", slice(discoveryv1.AddressTypeIPv4, "10.244.1.3"))
	if r := next(t, reports); r.Error != "" || !r.Full {
		t.Errorf("after the failure: %+v", r)
	}
}

func checkCleanup(t *testing.T, mode string) {
	t.Helper()
	run := func(stdin string, args ...string) {
		if _, err := nft(t.Context(), stdin, args...); err != nil {
			t.Fatal(err)
		}
	}
	run("add table ip others\nadd table ip6 kube-proxy2\n", "-f", "-")
	for range 2 {
		if err := Cleanup(t.Context()); err != nil {
			t.Error(err)
		}
		if left, err := Leftovers(t.Context()); err != nil || len(left) != 0 {
			t.Errorf("left after the clean-up of %s: %v, %v", mode, left, err)
		}
	}
	run("", "list", "table", "ip", "others")
	run("", "list", "table", "ip6", "kube-proxy2")
	if files, _ := filepath.Glob("/run/proxylab-*"); len(files) > 0 {
		t.Errorf("left in /run: %v", files)
	}
}

// makeNode gives this namespace a node's addresses and routes and a /run of its own.
func makeNode(t *testing.T) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	must(unix.Mount("tmpfs", "/run", "tmpfs", 0, ""))
	must(netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: "peer"}))
	for _, name := range []string{"lo", "peer", "eth0"} {
		link, err := netlink.LinkByName(name)
		must(err)
		must(netlink.LinkSetUp(link))
	}
	for device, addresses := range map[string][]string{
		"eth0": {"10.10.0.11/24", "fd00:10:10::11/64"},
		"lo":   {"10.244.1.2/32", "10.244.1.3/32", "fd00:10:244:1::2/128"},
	} {
		link, err := netlink.LinkByName(device)
		must(err)
		for _, a := range addresses {
			address, err := netlink.ParseAddr(a)
			must(err)
			address.Flags = unix.IFA_F_NODAD
			must(netlink.AddrAdd(link, address))
		}
	}
	eth0, err := netlink.LinkByName("eth0")
	must(err)
	for _, gateway := range []string{"10.10.0.1", "fd00:10:10::1"} {
		must(netlink.RouteAdd(&netlink.Route{LinkIndex: eth0.Attrs().Index, Gw: net.ParseIP(gateway)}))
	}
}

// answer serves a pod address: every connection gets that address and is closed.
func answer(t *testing.T, pod string) {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(pod, "8080"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(c, pod)
			c.Close()
		}
	}()
}

func ask(t *testing.T, vip string) string {
	t.Helper()
	c, err := net.DialTimeout("tcp", net.JoinHostPort(vip, "80"), 5*time.Second)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer c.Close()
	data, err := io.ReadAll(c)
	if err != nil {
		t.Error(err)
	}
	return string(data)
}

func healthy(t *testing.T) {
	t.Helper()
	r, err := http.Get("http://10.10.0.11:10256/healthz")
	if err != nil {
		t.Error(err)
		return
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		t.Errorf("healthz: %s", r.Status)
	}
}

func scan(r io.Reader) <-chan runner.Report {
	reports := make(chan runner.Report)
	go func() {
		defer close(reports)
		for lines := bufio.NewScanner(r); lines.Scan(); {
			var report runner.Report
			if err := json.Unmarshal(lines.Bytes(), &report); err != nil {
				report.Error = err.Error()
			}
			reports <- report
		}
	}()
	return reports
}

func next(t *testing.T, reports <-chan runner.Report) runner.Report {
	t.Helper()
	select {
	case r, ok := <-reports:
		if !ok {
			t.Fatal("no more reports")
		}
		return r
	case <-time.After(time.Minute):
		t.Fatal("no report within a minute")
	}
	return runner.Report{}
}

func node() *corev1.Node {
	return &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: "node1"},
		Spec:       corev1.NodeSpec{PodCIDR: "10.244.1.0/24", PodCIDRs: []string{"10.244.1.0/24", "fd00:10:244:1::/64"}},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: "10.10.0.11"}, {Type: corev1.NodeInternalIP, Address: "fd00:10:10::11"}}}}
}

func service(port int32) *corev1.Service {
	dual := corev1.IPFamilyPolicyRequireDualStack
	return &corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.96.0.10",
			ClusterIPs: []string{"10.96.0.10", "fd00:10:96::10"}, IPFamilyPolicy: &dual,
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol},
			Ports:      []corev1.ServicePort{{Port: port, Protocol: corev1.ProtocolTCP}}}}
}

func slice(kind discoveryv1.AddressType, address string) *discoveryv1.EndpointSlice {
	ready, protocol, port, name := true, corev1.ProtocolTCP, int32(8080), ""
	return &discoveryv1.EndpointSlice{TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-" + strings.ToLower(string(kind)),
			Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: kind,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &protocol}}}
}

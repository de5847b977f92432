package fabric_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"proxylab/lab/netns/echo"
	"proxylab/lab/netns/fabric"
	"proxylab/lab/netns/ns"
)

// network makes a lab's network of two nodes that ends with the test.
func network(t testing.TB, lab string) (fabric.Plan, string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	p := fabric.Plan{Lab: fmt.Sprintf("%s%d", lab, os.Getpid()), Count: 2}
	mounts := filepath.Join(t.TempDir(), "mounts")
	t.Cleanup(func() {
		if err := fabric.Unmount(mounts); err != nil {
			t.Error(err)
		}
		if err := fabric.Remove(p.Lab); err != nil {
			t.Error(err)
		}
	})
	if err := fabric.EnsureFabric(p.Lab); err != nil {
		t.Fatal(err)
	}
	if err := fabric.EnsureNodes(p, mounts); err != nil {
		t.Fatal(err)
	}
	return p, mounts
}

// pod makes a pod that answers.
func pod(t testing.TB, p fabric.Plan, n fabric.Node, name string, number int) fabric.PodAddrs {
	t.Helper()
	addrs := n.Pod(number)
	if err := fabric.EnsurePod(p.Lab, n, "default", name, addrs); err != nil {
		t.Fatal(err)
	}
	serve(t, fabric.PodPath(p.Lab, "default", name), name, n.Name)
	return addrs
}

func serve(t testing.TB, path, pod, node string) {
	t.Helper()
	o, err := echo.Parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	o.Pod, o.Node = pod, node
	if err := ns.Do(path, func() error {
		s, err := echo.Serve(context.Background(), o, echo.Local{})
		if err == nil {
			t.Cleanup(func() { _ = s.Close() })
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// ask connects from the namespace at path and returns who answered and whom it saw.
func ask(path, network string, to netip.AddrPort) (pod, client string, err error) {
	err = ns.Do(path, func() error {
		c, err := net.DialTimeout(network, to.String(), 5*time.Second)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
		if _, err := fmt.Fprintln(c, "hello"); err != nil {
			return err
		}
		line, err := bufio.NewReader(c).ReadString('\n')
		if err != nil {
			return err
		}
		fields := strings.Fields(line)
		seen, err := netip.ParseAddrPort(fields[2])
		pod, client = fields[0], seen.Addr().String()
		return err
	})
	return pod, client, err
}

func TestReachability(t *testing.T) {
	p, _ := network(t, "reach")
	node1, node2 := p.Nodes()[0], p.Nodes()[1]
	a, b, c := pod(t, p, node1, "a", 2), pod(t, p, node2, "b", 2), pod(t, p, node1, "c", 254)
	for _, n := range p.Nodes() {
		serve(t, fabric.NodePath(p.Lab, n.Name), n.Name, n.Name)
	}
	fabricAddrs := fabric.PodAddrs{V4: fabric.Fabric4.Addr(), V6: fabric.Fabric6.Addr()}
	nodeAddrs := func(n fabric.Node) fabric.PodAddrs {
		return fabric.PodAddrs{V4: n.Addr4.Addr(), V6: n.Addr6.Addr()}
	}
	podA, podC := fabric.PodPath(p.Lab, "default", "a"), fabric.PodPath(p.Lab, "default", "c")
	outside, atNode1 := fabric.Path(p.Lab), fabric.NodePath(p.Lab, "node1")
	for _, tc := range []struct {
		name    string
		path    string
		to      fabric.PodAddrs
		answers string
		seenAs  fabric.PodAddrs
	}{
		{"pod to pod on another node", podA, b, "b", a},
		{"pod to pod on its node", podC, a, "a", c},
		{"pod to itself", podA, a, "a", a},
		{"pod to its node", podA, nodeAddrs(node1), "node1", a},
		{"pod to another node", podA, nodeAddrs(node2), "node2", a},
		{"node to its pod", atNode1, a, "a", nodeAddrs(node1)},
		{"node to a pod elsewhere", atNode1, b, "b", nodeAddrs(node1)},
		{"node to node", atNode1, nodeAddrs(node2), "node2", nodeAddrs(node1)},
		{"outside to node", outside, nodeAddrs(node2), "node2", fabricAddrs},
		{"outside to pod", outside, b, "b", fabricAddrs},
	} {
		for network, port := range map[string]uint16{"tcp": 8081, "udp": 8082} {
			for family, addrs := range map[string][2]netip.Addr{"IPv4": {tc.to.V4, tc.seenAs.V4}, "IPv6": {tc.to.V6, tc.seenAs.V6}} {
				t.Run(tc.name+"/"+network+"/"+family, func(t *testing.T) {
					who, seen, err := ask(tc.path, network, netip.AddrPortFrom(addrs[0], port))
					if err != nil || who != tc.answers || seen != addrs[1].String() {
						t.Errorf("%s answered %s, %v; want %s to %s", who, seen, err, tc.answers, addrs[1])
					}
				})
			}
		}
	}
}

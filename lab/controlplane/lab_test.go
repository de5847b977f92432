package controlplane

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"proxylab/lab/netns/ns"
	"proxylab/lab/procs"
)

// limit is for things that happen within seconds; it is long because machines can be busy.
const limit = 2 * time.Minute

// newNetNS makes a network namespace in which the lab's address exists, and returns its file.
func newNetNS(t *testing.T, name string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("ip (iproute2) is not installed")
	}
	ip := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
	ip("netns", "add", name)
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "delete", name).Run() })
	ip("-n", name, "link", "set", "lo", "up")
	ip("-n", name, "address", "add", "10.10.0.1/24", "dev", "lo")
	return "/run/netns/" + name
}

// labName is unique to this process, so that test runs side by side do not meet.
func labName(what string) string { return fmt.Sprintf("proxylab-cp-%s-%d", what, os.Getpid()) }

func stopAfterwards(t *testing.T, lab string) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if err := Stop(ctx, lab); err != nil {
			t.Error(err)
		}
	})
}

// restConfig is for a client in this process; with a namespace it connects from in there.
func restConfig(t *testing.T, kubeconfig, netns string) *rest.Config {
	t.Helper()
	c, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	c.QPS = -1
	if netns != "" {
		c.Dial = func(ctx context.Context, network, address string) (conn net.Conn, err error) {
			err = ns.Do(netns, func() error {
				conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
				return err
			})
			return conn, err
		}
	}
	return c
}

func clientOf(t *testing.T, kubeconfig, netns string) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(restConfig(t, kubeconfig, netns))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// eventually asks until there is no error.
func eventually(t *testing.T, what string, ask func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for {
		err := ask(ctx)
		if err == nil {
			return
		}
		if stop := procs.Sleep(ctx, 20*time.Millisecond); stop != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

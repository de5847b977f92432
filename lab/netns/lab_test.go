package netns_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"proxylab/lab/netns"
)

// up brings up a lab that ends with the test, with a client of its API.
func up(t testing.TB, o netns.Options) (*netns.Lab, kubernetes.Interface) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a netns lab needs root")
	}
	if testing.Short() {
		t.Skip("brings up a whole lab")
	}
	o.Log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	l, err := netns.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	t.Cleanup(func() {
		if os.Getenv("PROXYLAB_KEEP") != "" {
			return
		}
		if err := l.Down(context.Background()); err != nil {
			t.Error(err)
		}
	})
	begin := time.Now()
	if err := l.Up(ctx); err != nil {
		t.Fatal(err)
	}
	t.Logf("up in %.1f s", time.Since(begin).Seconds())
	cfg, err := clientcmd.BuildConfigFromFlags("", l.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS = -1
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l, client
}

func name(what string) string { return fmt.Sprintf("%s%d", what, os.Getpid()) }

func TestUp(t *testing.T) {
	l, _ := up(t, netns.Options{Name: name("up")})
	t.Log(netns.List(context.Background()))
	_ = l
}

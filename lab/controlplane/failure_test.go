package controlplane

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"proxylab/lab/netns/ns"
	"proxylab/lab/procs"
)

func TestStartFailsWithTheLog(t *testing.T) {
	lab := labName("crash")
	cfg := testConfig(t, lab)
	stopAfterwards(t, lab)
	cfg.Executable = filepath.Join(t.TempDir(), "broken")
	script := "#!/bin/sh\necho this is why: $*\nexit 7\n"
	if err := os.WriteFile(cfg.Executable, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := Start(t.Context(), cfg)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{lab, "exit status 7", "this is why: component", "--dir"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
}

func TestStartFailsWhereTheAddressIsTaken(t *testing.T) {
	lab := labName("taken")
	cfg := testConfig(t, lab)
	cfg.NetNS = newNetNS(t, lab)
	stopAfterwards(t, lab)
	l, err := ns.Listen(cfg.NetNS, "tcp4", "10.10.0.1:6443")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = Start(t.Context(), cfg)
	if err == nil || !strings.Contains(err.Error(), "10.10.0.1:6443") || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("error: %v", err)
	}
	if left, _ := procs.Find(lab); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestStartFailsWithoutTheNamespace(t *testing.T) {
	lab := labName("nowhere")
	cfg := testConfig(t, lab)
	cfg.NetNS = "/run/netns/proxylab-no-such"
	stopAfterwards(t, lab)
	if _, err := Start(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), cfg.NetNS) {
		t.Errorf("error: %v", err)
	}
}

// TestStartCanBeCutShort also shows that another Start waits its turn.
func TestStartCanBeCutShort(t *testing.T) {
	lab := labName("short")
	cfg := testConfig(t, lab)
	stopAfterwards(t, lab)
	cfg.Executable = filepath.Join(t.TempDir(), "slow")
	if err := os.WriteFile(cfg.Executable, []byte("#!/bin/sh\nexec sleep 600\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { first <- second(Start(ctx, cfg)) }()
	eventually(t, "processes", func(context.Context) error {
		if all, err := procs.Find(lab); err != nil || len(all) < len(parts) {
			return errors.New("not all")
		}
		return nil
	})
	soon, cancelSoon := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancelSoon()
	if _, err := Start(soon, cfg); err == nil || !strings.Contains(err.Error(), "held by another") || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("second start: %v", err)
	}
	cancel()
	err := <-first
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), kubeScheduler) {
		t.Errorf("first start: %v", err)
	}
}

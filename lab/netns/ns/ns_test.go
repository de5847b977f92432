package ns_test

import (
	"errors"
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"proxylab/lab/netns/ns"
)

// However often: the main thread keeps its namespaces, and so does every thread that code finds itself on.
func TestThrowaway(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	here := func(of string) string {
		link, err := os.Readlink("/proc/" + of + "/ns/net")
		if err != nil {
			t.Error(err)
		}
		return link
	}
	home := here("self")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if err := ns.Throwaway(func() error {
					if unix.Gettid() == unix.Getpid() {
						t.Error("on the main thread")
					}
					return unix.Unshare(unix.CLONE_NEWNET)
				}); err != nil {
					t.Error(err)
				}
				if got := here("thread-self"); got != home {
					t.Errorf("found itself in %s", got)
				}
			}
		})
	}
	wg.Wait()
	if got := here("self"); got != home {
		t.Errorf("the main thread is in %s", got)
	}
}

func TestDo(t *testing.T) {
	if err := ns.Do("/no/such/namespace", func() error { return nil }); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

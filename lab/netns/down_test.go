package netns_test

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"proxylab/lab/netns"
	"proxylab/lab/procs"
)

// docker is the links of containers, which come and go beside.
var docker = regexp.MustCompile(`\b(veth[0-9a-f]{7}|br-[0-9a-f]{12}|docker0)\b`)

// snapshot is all of the machine that a lab could leave something in. Others work on this machine as well: names that
// are theirs stay out of it.
func snapshot(t *testing.T, lab string) (lines []string) {
	t.Helper()
	mine := func(dir string) {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		for _, e := range entries {
			if strings.Contains(e.Name(), lab) {
				lines = append(lines, dir+"/"+e.Name())
			}
		}
	}
	for _, dir := range []string{"/run/netns", "/var/lib/proxylab", "/run", "/run/lock", os.TempDir()} {
		mine(dir)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, lab) {
			lines = append(lines, line)
		}
	}
	running, err := procs.Find(lab)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range running {
		lines = append(lines, "process "+p.Part)
	}
	for _, args := range [][]string{{"-o", "link"}, {"-o", "addr"}, {"route", "show", "table", "all"}, {"-6", "route", "show", "table", "all"}, {"rule"}} {
		out, err := exec.Command("ip", args...).Output()
		if err != nil {
			t.Skip("ip: ", err)
		}
		for line := range strings.Lines(string(out)) {
			line, _, _ = strings.Cut(line, "valid_lft") // which counts down
			if !docker.MatchString(line) {
				lines = append(lines, line)
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// Whenever the process that makes a lab is killed, Down leaves the machine as it was.
func TestDownAfterKill(t *testing.T) {
	needsLab(t)
	lab := name("killed")
	before := snapshot(t, lab)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		// Most points of interest are early: the network takes less time than the control plane.
		after := time.Duration(rand.ExpFloat64() * float64(time.Second) * []float64{0.02, 0.2, 3}[i%3])
		up := exec.Command(exe, "lab-up", lab)
		if err := up.Start(); err != nil {
			t.Fatal(err)
		}
		await(t, "a beginning", func() error { _, err := os.Stat("/var/lib/proxylab/." + lab + ".lock"); return err })
		time.Sleep(after) // the point is to be in the middle of something, whatever it is
		_ = up.Process.Kill()
		_ = up.Wait()
		had := len(snapshot(t, lab)) - len(before)

		var g errgroup.Group
		for range 2 {
			g.Go(func() error { return exec.Command(exe, "lab-down", lab).Run() })
		}
		if err := g.Wait(); err != nil {
			t.Fatalf("down: %v", err)
		}
		if left := snapshot(t, lab); !slices.Equal(left, before) {
			t.Fatalf("killed after %v, left:\n%s", after, difference(left, before))
		}
		t.Logf("killed after %v, when it had made %d things", after, had)
	}
}

func difference(a, b []string) string {
	var only []string
	for _, line := range a {
		if !slices.Contains(b, line) {
			only = append(only, "+ "+line)
		}
	}
	for _, line := range b {
		if !slices.Contains(a, line) {
			only = append(only, "- "+line)
		}
	}
	return strings.Join(only, "\n")
}

// A whole lab with pods and a proxier, all of whose processes were killed, is known by its remains.
func TestLeftovers(t *testing.T) {
	needsLab(t)
	lab := name("remains")
	before := snapshot(t, lab)
	l, client := up(t, netns.Options{Name: lab, Nodes: 1})
	createPod(t, client, "web", "proxylab/echo")
	if during := snapshot(t, lab); len(during) == len(before) {
		t.Error("the snapshot sees nothing of a lab")
	}
	for _, line := range snapshot(t, lab) {
		if strings.Contains(line, "10.10.0.") || strings.Contains(line, "10.244.") {
			t.Errorf("the host's own network has %s", line)
		}
	}
	if err := procs.Stop(context.Background(), lab, "", 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(l.Dir() + "/lab.json"); err != nil {
		t.Fatal(err)
	}
	labs, err := netns.List(context.Background())
	if err != nil || !slices.ContainsFunc(labs, func(i netns.Info) bool { return i.Name == lab && !i.Complete }) {
		t.Errorf("its remains are not listed: %+v, %v", labs, err)
	}
	for range 2 {
		if err := l.Down(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if left := snapshot(t, lab); !slices.Equal(left, before) {
		t.Errorf("left:\n%s", difference(left, before))
	}
}

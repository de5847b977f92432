package usage

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

// TestMain doubles as the processes that the tests measure.
func TestMain(m *testing.M) {
	if role := os.Getenv("USAGE_TEST_ROLE"); role != "" {
		play(role)
		return
	}
	goleak.VerifyTestMain(m)
}

// play is a process whose cost is known: it follows the commands on its input and answers each with "ok".
func play(role string) {
	var held [][]byte
	in := bufio.NewScanner(os.Stdin)
	var child *exec.Cmd
	var childIn io.WriteCloser
	var childOut *bufio.Scanner
	for in.Scan() {
		verb, arg, _ := strings.Cut(in.Text(), " ")
		switch verb {
		case "burn": // milliseconds of CPU time
			ms, _ := strconv.Atoi(arg)
			burn(time.Duration(ms) * time.Millisecond)
		case "hold": // MiB of memory
			mib, _ := strconv.Atoi(arg)
			b := make([]byte, mib<<20)
			for i := 0; i < len(b); i += 512 {
				b[i] = 1
			}
			held = append(held, b)
		case "child":
			child = exec.Command(os.Args[0])
			child.Env = append(os.Environ(), "USAGE_TEST_ROLE=child")
			childIn, _ = child.StdinPipe()
			out, _ := child.StdoutPipe()
			childOut = bufio.NewScanner(out)
			if err := child.Start(); err != nil {
				fmt.Println(err)
				continue
			}
			fmt.Println("ok", child.Process.Pid)
			continue
		case "tell": // the child
			_, _ = fmt.Fprintln(childIn, arg)
			childOut.Scan()
		case "reap":
			_ = childIn.Close()
			_ = child.Wait()
		}
		fmt.Println("ok", len(held))
	}
}

func burn(d time.Duration) {
	used := func() time.Duration {
		var r syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
		return time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	for end := used() + d; used() < end; {
	}
}

// actor is a process of play.
type actor struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func start(t *testing.T) *actor {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "USAGE_TEST_ROLE=root", "GORACE=atexit_sleep_ms=0")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	return &actor{t, cmd, in, bufio.NewScanner(out)}
}

func (a *actor) tell(format string, args ...any) string {
	a.t.Helper()
	if _, err := fmt.Fprintf(a.in, format+"\n", args...); err != nil {
		a.t.Fatal(err)
	}
	if !a.out.Scan() || !strings.HasPrefix(a.out.Text(), "ok") {
		a.t.Fatalf("answer to %q: %q", format, a.out.Text())
	}
	return a.out.Text()
}

func (a *actor) pid() int { return a.cmd.Process.Pid }

func (a *actor) tree() Sample {
	a.t.Helper()
	s, err := Tree(a.pid())
	if err != nil {
		a.t.Fatal(err)
	}
	return s
}

func TestTreeCountsDescendants(t *testing.T) {
	a := start(t)
	a.tell("burn 100")
	alone := a.tree()
	if alone.CPUSeconds < 0.08 {
		t.Errorf("100 ms of CPU time count as %v s", alone.CPUSeconds)
	}
	a.tell("child")
	a.tell("tell burn 200")
	living := a.tree()
	if more := living.CPUSeconds - alone.CPUSeconds; more < 0.18 {
		t.Errorf("200 ms of a living child count as %v s", more)
	}
	a.tell("tell child")
	a.tell("tell tell burn 200")
	grand := a.tree()
	if more := grand.CPUSeconds - living.CPUSeconds; more < 0.18 {
		t.Errorf("200 ms of a grandchild count as %v s", more)
	}
	if grand.RSSBytes <= alone.RSSBytes {
		t.Errorf("three processes hold %d bytes, one %d", grand.RSSBytes, alone.RSSBytes)
	}
	a.tell("tell reap")
	a.tell("reap")
	reaped := a.tree()
	if reaped.CPUSeconds < grand.CPUSeconds {
		t.Errorf("%v s of CPU time, and after the children were waited for %v s", grand.CPUSeconds, reaped.CPUSeconds)
	}
	if reaped.RSSBytes >= grand.RSSBytes {
		t.Errorf("%d bytes with three processes, %d with one", grand.RSSBytes, reaped.RSSBytes)
	}
}

func TestTreeMemory(t *testing.T) {
	a := start(t)
	before := a.tree()
	a.tell("hold 64")
	after := a.tree()
	if more := after.RSSBytes - before.RSSBytes; more < 60<<20 {
		t.Errorf("64 MiB count as %d bytes", more)
	}
	if after.MaxRSSBytes < after.RSSBytes {
		t.Errorf("at most %d bytes, but now %d", after.MaxRSSBytes, after.RSSBytes)
	}
	sum, err := Memory(a.pid(), os.Getpid())
	if err != nil || sum <= after.RSSBytes/2 {
		t.Errorf("%d, %v", sum, err)
	}
}

func TestTreeWithChildrenThatComeAndGo(t *testing.T) {
	a := start(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 12 {
			_, _ = fmt.Fprint(a.in, "child\ntell burn 20\nreap\n")
			for range 3 {
				a.out.Scan()
			}
		}
	}()
	var seen []float64
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		seen = append(seen, a.tree().CPUSeconds)
	}
	final := a.tree().CPUSeconds
	if final < 0.2 {
		t.Errorf("12 times 20 ms count as %v s", final)
	}
	for i, s := range seen {
		// Each of the four times of a process is cut off to whole 10 ms.
		if s > final+0.041 {
			t.Errorf("sample %d of %d is %v s, but all in all it was %v: something counted twice", i, len(seen), s, final)
		}
	}
}

func TestGone(t *testing.T) {
	a := start(t)
	_ = a.in.Close()
	if err := a.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	pid := a.pid()
	if _, err := Tree(pid); !errors.Is(err, ErrGone) || !strings.Contains(err.Error(), strconv.Itoa(pid)) {
		t.Errorf("tree: %v", err)
	}
	if _, err := Memory(pid); !errors.Is(err, ErrGone) {
		t.Errorf("memory: %v", err)
	}
	if sum, err := Memory(pid, os.Getpid()); err != nil || sum == 0 {
		t.Errorf("memory of one that is gone and one that is not: %d, %v", sum, err)
	}
	err := Watch(context.Background(), pid, time.Millisecond, func(Sample) { t.Error("a sample of nothing") })
	if !errors.Is(err, ErrGone) {
		t.Errorf("watch: %v", err)
	}
}

func TestWatchKeepsTheLastSample(t *testing.T) {
	a := start(t)
	a.tell("hold 32")
	samples := make(chan Sample, 100_000)
	result := make(chan error, 1)
	go func() {
		result <- Watch(context.Background(), a.pid(), time.Millisecond, func(s Sample) { samples <- s })
		close(samples)
	}()
	first := <-samples
	a.tell("burn 100")
	_ = a.in.Close() // it ends, and is not waited for yet
	if err := <-result; !errors.Is(err, ErrGone) {
		t.Errorf("watch returned %v", err)
	}
	last := first
	for s := range samples {
		if s.CPUSeconds < last.CPUSeconds || s.MaxRSSBytes < last.MaxRSSBytes || s.MaxRSSBytes < s.RSSBytes {
			t.Fatalf("%+v after %+v", s, last)
		}
		last = s
	}
	if last.CPUSeconds-first.CPUSeconds < 0.08 || last.MaxRSSBytes < 32<<20 {
		t.Errorf("at first %+v, at last %+v", first, last)
	}
}

func TestWatchEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	n := 0
	err := Watch(ctx, os.Getpid(), time.Hour, func(Sample) {
		if n++; n == 1 {
			cancel()
		}
	})
	if err != nil || n < 1 || n > 2 {
		t.Errorf("%d samples, %v", n, err)
	}
	if err := Watch(context.Background(), os.Getpid(), 0, func(Sample) {}); err == nil {
		t.Error("an interval of 0")
	}
}

func TestMachine(t *testing.T) {
	before, err := Softirq()
	if err != nil || before < 0 {
		t.Errorf("%v, %v", before, err)
	}
	if after, err := Softirq(); err != nil || after < before {
		t.Errorf("%v, then %v, %v", before, after, err)
	}
	release, err := Kernel()
	if file, readErr := os.ReadFile("/proc/sys/kernel/osrelease"); err != nil || readErr != nil || release != strings.TrimSpace(string(file)) {
		t.Errorf("%q, %v; the file says %q, %v", release, err, file, readErr)
	}
	if CPUs() < 1 {
		t.Error(CPUs())
	}
}

func TestParseStat(t *testing.T) {
	good := "42 (%s) S 7 42 42 0 -1 4194560 100 0 0 0 150 50 30 20 20 0 3 0 9999 1000000 25 184467 1 1 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0\n"
	for _, name := range []string{"cat", "a b", "x) S 1 (y", "(((", ")", ""} {
		p, err := parseStat(fmt.Appendf(nil, good, name))
		want := process{pid: 42, parent: 7, state: 'S', started: 9999, cpu: 2, waited: 0.5, rss: 25 * int64(os.Getpagesize())}
		if err != nil || p != want {
			t.Errorf("%q: %+v, %v", name, p, err)
		}
	}
	for _, bad := range []string{"", "42", "42 cat S", "42 (cat) S 7", "x (cat) S 7", ") (", strings.Replace(good, "150", "x", 1)} {
		if p, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q is %+v", bad, p)
		}
	}
}

func TestParseStatTakesAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, _ = parseStat([]byte(rapid.String().Draw(t, "line")))
	})
}

// A made-up /proc: trees of any shape count each process once, and nobody else's.
func TestTreeOfAnyShape(t *testing.T) {
	dir := t.TempDir()
	for _, lists := range []bool{false, true} {
		rapid.Check(t, func(rt *rapid.T) { treeOfAnyShape(rt, dir, lists) })
	}
}

// treeOfAnyShape makes it up; lists: as a kernel that lists children.
func treeOfAnyShape(rt *rapid.T, dir string, lists bool) {
	fs := procfs(filepath.Join(dir, strconv.FormatUint(rapid.Uint64().Draw(rt, "name"), 16)))
	defer os.RemoveAll(string(fs))
	n := rapid.IntRange(1, 12).Draw(rt, "processes")
	inside := map[int]bool{1: true}
	kids := map[int][]int{}
	wantCPU, wantRSS := 0.0, int64(0)
	for pid := 1; pid <= n; pid++ {
		parent := 0
		if pid > 1 {
			parent = rapid.IntRange(0, pid-1).Draw(rt, "parent")
		}
		inside[pid] = pid == 1 || inside[parent] && parent != 0
		ticks, pages := rapid.IntRange(0, 1000).Draw(rt, "ticks"), rapid.Int64Range(0, 1000).Draw(rt, "pages")
		if inside[pid] {
			wantCPU += float64(ticks) * 4 / userHz
			wantRSS += pages * int64(os.Getpagesize())
		}
		d := filepath.Join(string(fs), strconv.Itoa(pid))
		if err := os.MkdirAll(d, 0o755); err != nil {
			rt.Fatal(err)
		}
		line := fmt.Sprintf("%d (p) S %d 0 0 0 0 0 0 0 0 0 %d %d %d %d 0 0 0 0 %d 0 %d\n", pid, parent, ticks, ticks, ticks, ticks, pid, pages)
		kids[parent] = append(kids[parent], pid)
		if err := os.WriteFile(filepath.Join(d, "stat"), []byte(line), 0o644); err != nil {
			rt.Fatal(err)
		}
	}
	for pid := 1; lists && pid <= n; pid++ {
		d := filepath.Join(string(fs), strconv.Itoa(pid), "task", strconv.Itoa(pid))
		text := strings.Trim(fmt.Sprint(kids[pid]), "[]") + " "
		if err := errors.Join(os.MkdirAll(d, 0o755), os.WriteFile(filepath.Join(d, "children"), []byte(text), 0o644)); err != nil {
			rt.Fatal(err)
		}
	}
	s, _, err := fs.tree(1)
	if err != nil || s.RSSBytes != wantRSS || s.MaxRSSBytes != wantRSS || s.CPUSeconds < wantCPU-1e-9 || s.CPUSeconds > wantCPU+1e-9 {
		rt.Fatalf("%+v, %v; want %v s, %d bytes", s, err, wantCPU, wantRSS)
	}
}

func TestSoftirqOfOtherMachines(t *testing.T) {
	fs := procfs(t.TempDir())
	if _, err := fs.softirq(); err == nil {
		t.Error("no file, no error")
	}
	for text, want := range map[string]float64{
		"cpu  1 2 3 4 5 6 250 0 0 0\ncpu0 1 2 3 4 5 6 7 0 0 0\n": 2.5,
		"cpu0 1 2 3 4 5 6 7\n": -1, "cpu 1 2 3\n": -1, "cpu 1 2 3 4 5 6 x\n": -1, "": -1,
	} {
		if err := os.WriteFile(filepath.Join(string(fs), "stat"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := fs.softirq()
		if (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

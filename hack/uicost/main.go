// Command uicost measures what it costs to watch a run: the processor time that the view takes, and whether the traffic feels it.
//
// It plays a short scenario on a lab of its own again and again, by turns with the view and without, in a terminal of 160x50,
// and compares the p99 of its loads by a Mann-Whitney test. It wants root and bin/proxylab:
//
//	go run ./hack/uicost [-n 6]
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"proxylab/bench/report"
	"proxylab/bench/stats"
	"proxylab/bench/units"
)

func main() {
	n := flag.Int("n", 6, "runs with the view, and as many without")
	program := flag.String("proxylab", "bin/proxylab", "the program")
	scenario := flag.String("scenario", "hack/uicost/scenario.yaml", "what is played")
	lab := flag.String("name", "ui-cost", "name of the lab that is made and removed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := measure(ctx, *program, *scenario, *lab, *n)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "uicost:", err)
		os.Exit(1)
	}
}

// sides are what is compared: without the view, and with it.
var sides = [2]string{"off", "on"}

func measure(ctx context.Context, program, scenario, lab string, n int) (err error) {
	dir, err := os.MkdirTemp("", "uicost-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if out, err := exec.CommandContext(ctx, program, "up", "--nodes", "2", "--proxier", "iptables", "--name", lab).CombinedOutput(); err != nil {
		return fmt.Errorf("bring up a lab: %w\n%s", err, out)
	}
	defer func() { // also when interrupted
		out, downErr := exec.Command(program, "down", lab).CombinedOutput()
		if downErr != nil {
			err = errors.Join(err, fmt.Errorf("take the lab down: %w\n%s", downErr, out))
		}
	}()
	var all [2][]sample
	for i := range 2 * n {
		side := i % 2
		command := fmt.Sprintf("exec %s run %s --name %s --proxiers iptables --tui %s -o json --out %s", program, scenario, lab, sides[side], dir)
		s, err := play(ctx, command, dir)
		if err != nil {
			return err
		}
		fmt.Printf("view %-3s  %5.1f s  processor %.2f%%  p99", sides[side], s.seconds, 100*s.share())
		for _, load := range loads {
			fmt.Printf("  %s %s", load, units.Seconds(s.p99[load]))
		}
		fmt.Println()
		all[side] = append(all[side], s)
	}
	return conclude(all)
}

// loads of the scenario whose p99 is compared.
var loads = []string{"web", "reuse"}

// sample is one run.
type sample struct {
	seconds float64 // that it took
	cpu     float64 // seconds of the process that plays and shows it, without its children
	p99     map[string]float64
}

func (s sample) share() float64 { return s.cpu / s.seconds }

// play does a run in a terminal.
func play(ctx context.Context, command, dir string) (s sample, err error) {
	var screen bytes.Buffer
	cmd := exec.CommandContext(ctx, "script", "-qefc", "stty rows 50 cols 160; "+command, "/dev/null")
	cmd.Stdout, cmd.Stderr = &screen, &screen
	cmd.Env = append(os.Environ(), "TERM=xterm-256color")
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return s, fmt.Errorf("a terminal: %w", err)
	}
	over := make(chan error, 1)
	go func() { over <- cmd.Wait() }()
	for running := true; running; {
		select {
		case err = <-over:
			running = false
		case <-time.After(100 * time.Millisecond):
			if cpu, ok := cpuOfChild(cmd.Process.Pid); ok {
				s.cpu, s.seconds = cpu, time.Since(began).Seconds()
			}
		}
	}
	if err != nil {
		return s, fmt.Errorf("%s: %w\n%s", command, err, screen.Bytes())
	}
	return s, s.read(dir)
}

// cpuOfChild is the processor time so far, in seconds, of the only child of a process.
func cpuOfChild(pid int) (float64, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return 0, false
	}
	child := strings.TrimSpace(string(text))
	stat, err := os.ReadFile(filepath.Join("/proc", child, "stat"))
	if err != nil {
		return 0, false
	}
	_, rest, _ := bytes.Cut(stat, []byte(") "))
	fields := strings.Fields(string(rest))
	if len(fields) < 13 {
		return 0, false
	}
	user, err1 := strconv.ParseFloat(fields[11], 64)
	system, err2 := strconv.ParseFloat(fields[12], 64)
	const ticks = 100 // a second, on every Linux that there is
	return (user + system) / ticks, err1 == nil && err2 == nil
}

// read takes the p99s from the only run in dir, and removes it.
func (s *sample) read(dir string) error {
	runs, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(runs) != 1 {
		return fmt.Errorf("%d runs in %s: %w", len(runs), dir, err)
	}
	r, err := report.ReadFile(runs[0])
	if err != nil {
		return err
	}
	s.p99 = map[string]float64{}
	for _, load := range loads {
		if len(r.Subjects) == 0 || r.Subjects[0].Loads[load] == nil || r.Subjects[0].Loads[load].Latency == nil {
			return fmt.Errorf("nothing was measured of load %s", load)
		}
		s.p99[load] = r.Subjects[0].Loads[load].Latency.P99
	}
	return os.RemoveAll(runs[0])
}

func conclude(all [2][]sample) error {
	of := func(get func(sample) float64) (values [2][]float64) {
		for side, list := range all {
			for _, s := range list {
				values[side] = append(values[side], get(s))
			}
		}
		return values
	}
	shares := of(sample.share)
	d, ok := stats.Compare(shares[0], shares[1])
	if !ok {
		return errors.New("nothing was measured")
	}
	fmt.Printf("\nprocessor of the process that plays and shows a run, medians of %d: without the view %.2f%%, with it %.2f%%: the view takes %.2f%% of a core\n",
		d.Base.N, 100*d.Base.Median, 100*d.New.Median, 100*(d.New.Median-d.Base.Median))
	for _, load := range loads {
		v := of(func(s sample) float64 { return s.p99[load] })
		d, _ := stats.Compare(v[0], v[1])
		fmt.Printf("p99 of load %s, medians: without %s, with %s, Mann-Whitney p = %.2f\n", load, units.Seconds(d.Base.Median), units.Seconds(d.New.Median), d.P)
	}
	return nil
}

package kubeproxy

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// cpuOf returns how to read the CPU time, in seconds, of a process and of the programs it runs: its control group's, which
// has nothing else in it where the process is the only one of a container. It fails once the process has ended.
func cpuOf(pid int) func() (float64, error) {
	file, err := cpuFile("/proc", "/sys/fs/cgroup", pid)
	return func() (float64, error) {
		if err != nil {
			return 0, err
		}
		if _, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid))); err != nil {
			return 0, err
		}
		return readCPU(file)
	}
}

// cpuFile is the file of a process's control group with its CPU time, of version 1 or 2.
func cpuFile(proc, mounts string, pid int) (string, error) {
	groups, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for _, controller := range strings.Split(parts[1], ",") {
			if controller == "cpuacct" {
				return filepath.Join(mounts, "cpuacct", parts[2], "cpuacct.usage"), nil
			}
		}
		if parts[0] == "0" && isFile(filepath.Join(mounts, parts[2], "cpu.stat")) {
			return filepath.Join(mounts, parts[2], "cpu.stat"), nil
		}
	}
	return "", fmt.Errorf("process %d has no control group with CPU time:\n%s", pid, groups)
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// readCPU reads nanoseconds from cpuacct.usage, or microseconds from cpu.stat (Documentation/admin-guide/cgroup-v2.rst).
func readCPU(file string) (float64, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	unit, text := 1e9, strings.TrimSpace(string(data))
	if filepath.Base(file) == "cpu.stat" {
		unit = 1e6
		_, rest, _ := strings.Cut(text, "usage_usec ")
		text, _, _ = strings.Cut(rest, "\n")
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", file, err)
	}
	return n / unit, nil
}

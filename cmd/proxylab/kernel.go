package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"proxylab/lab/kernel"
	"proxylab/lab/netns"
)

// kernelFlags say which kernel a lab lives in: this machine's, or one that is started for it and thrown away.
type kernelFlags struct {
	kind, path string
	memoryMiB  int
}

func (k *kernelFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&k.kind, "kernel", "host", "kernel to do it in: host, or uml (a throw-away User Mode Linux kernel)")
	f.StringVar(&k.path, "uml-kernel", "", "file of the User Mode Linux kernel (default: what \"make uml-kernel\" built, or Debian's)")
	f.IntVar(&k.memoryMiB, "uml-memory", kernel.DefaultMemoryMiB, "memory of the User Mode Linux kernel, in MiB")
}

// uml says that it is not to happen in this machine's kernel.
func (k *kernelFlags) uml() bool { return k.kind == "uml" }

// validate takes the name of a lab that is up, because that one lives in this machine's kernel.
func (k *kernelFlags) validate(cmd *cobra.Command, labName string) error {
	const least, most = 512, 1 << 20
	switch {
	case k.kind != "host" && k.kind != "uml":
		return usagef("--kernel %q: accepted are host, uml", k.kind)
	case !k.uml() && (k.path != "" || cmd.Flags().Changed("uml-memory")):
		return usagef("--uml-kernel and --uml-memory are for --kernel uml")
	case k.uml() && labName != "":
		return usagef("--name is for a lab that is up, and --kernel uml makes one in a kernel of its own: give one of them")
	case k.memoryMiB < least || k.memoryMiB > most:
		return usagef("--uml-memory %d: accepted are %d to %d (MiB)", k.memoryMiB, least, most)
	}
	return nil
}

// outerFlags are for the process outside alone.
var outerFlags = []string{"kernel", "uml-kernel", "uml-memory"}

// passThrough runs the same command line inside, and ends as it does.
func (k *kernelFlags) passThrough(cmd *cobra.Command, args []string) error {
	status, err := k.run(cmd.Context(), innerArgs(cmd, args), cmd.OutOrStdout(), cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if status != 0 {
		return statusError(status)
	}
	return nil
}

// run runs a command line of proxylab inside and returns its exit status.
func (k *kernelFlags) run(ctx context.Context, args []string, stdout, stderr io.Writer) (int, error) {
	found, err := kernel.Find(ctx, k.path)
	if err != nil && k.path != "" {
		return 0, usagef("--uml-kernel: %w", err)
	}
	if err != nil {
		return 0, err
	}
	slog.Debug("starting a kernel", "path", found.Path, "release", found.Release)
	owner := kernelOwner + strconv.Itoa(os.Getpid())
	config := kernel.Config{
		Kernel: found, Lab: owner, Args: args, Stdout: stdout, Stderr: stderr, MemoryMiB: k.memoryMiB,
	}
	if os.Geteuid() == 0 {
		config.StateDir = netns.Dir(owner)
	}
	return kernel.Run(ctx, config)
}

// kernelOwner and the number of the process that started it is under what name a kernel is kept.
const kernelOwner = "uml-"

// runsInKernel says that a lab's name is that of a kernel whose process is at work: what is in there cannot be seen from here.
func runsInKernel(name string) bool {
	pid, ok := strings.CutPrefix(name, kernelOwner)
	if _, err := strconv.Atoi(pid); !ok || err != nil {
		return false
	}
	args, err := os.ReadFile(filepath.Join("/proc", pid, "cmdline")) // the number may be another process's by now
	return err == nil && slices.ContainsFunc(strings.Split(string(args), "\x00"), func(a string) bool { return a == "uml" || a == "--kernel=uml" })
}

// innerArgs is the command line as it was given, without the flags of the process outside and those named.
func innerArgs(cmd *cobra.Command, args []string, without ...string) []string {
	inner := strings.Fields(cmd.CommandPath())[1:]
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if slices.Contains(outerFlags, f.Name) || slices.Contains(without, f.Name) {
			return
		}
		value := f.Value.String()
		if list, ok := f.Value.(pflag.SliceValue); ok {
			value = strings.Join(list.GetSlice(), ",")
		}
		inner = append(inner, "--"+f.Name+"="+value)
	})
	return append(append(inner, "--"), args...)
}

// kernelKind is what this process's kernel is, as results say it.
func kernelKind() string {
	if kernel.Inside() {
		return "uml"
	}
	return "host"
}

// statusError is the exit status of the same command inside another kernel, which said itself what was the matter.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("ended with exit status %d", int(e)) }

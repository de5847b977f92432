// Package kernel runs a command of this program inside a throw-away kernel: a User Mode Linux kernel, which is an
// ordinary process of this machine, for what the machine's own kernel lacks.
//
// Inside, the machine's files are the root, below a layer in memory: everything can be read, and whatever is written
// goes away with the kernel. This program itself is the first process (see Init); it runs the command and hands its
// output, its exit status and interrupts through between inside and outside, over serial lines that are pipes.
package kernel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"proxylab/lab"
)

// debianKernel is that of the package user-mode-linux.
const debianKernel = "/usr/bin/linux.uml"

// remedy is how to come by a kernel.
const remedy = `"make uml-kernel" builds one for all modes; "apt-get install user-mode-linux" brings one for all but nftables; --uml-kernel PATH takes any`

// Kernel is a User Mode Linux kernel on this machine.
type Kernel struct {
	Path    string
	Release string // as "uname -r" says in it
}

// Find returns the kernel at path or, where path is empty, the first that there is: the newest that hack/umlkernel
// built, then Debian's. It is a lab.Missing where there is none, and another error where path is not one.
func Find(ctx context.Context, path string) (Kernel, error) {
	if path != "" {
		return at(ctx, path)
	}
	var errs []error
	for _, candidate := range append(built(), debianKernel) {
		if _, err := os.Stat(candidate); err != nil {
			continue
		}
		k, err := at(ctx, candidate)
		if err == nil {
			return k, nil
		}
		errs = append(errs, err)
	}
	what := "there is no User Mode Linux kernel"
	if len(errs) > 0 {
		what = fmt.Sprintf("there is no User Mode Linux kernel that works: %v", errors.Join(errs...))
	}
	return Kernel{}, lab.Missing{What: what, Remedy: remedy}
}

var releaseText = regexp.MustCompile(`^[0-9]+\.[0-9]+\S*$`)

// at asks a kernel for its release, which it says without booting.
func at(ctx context.Context, path string) (Kernel, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return Kernel{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return Kernel{}, fmt.Errorf("%s --version, which a User Mode Linux kernel answers: %w", path, err)
	}
	release := strings.TrimSpace(string(out))
	if !releaseText.MatchString(release) {
		return Kernel{}, fmt.Errorf("%s is not a User Mode Linux kernel: to --version it says %.60q", path, release)
	}
	return Kernel{Path: path, Release: release}, nil
}

// built are the kernels that hack/umlkernel made, the newest first.
func built() []string {
	var found []string
	times := map[string]time.Time{}
	for _, dir := range caches() {
		paths, _ := filepath.Glob(filepath.Join(dir, "proxylab", "uml", "*", "linux")) // the pattern is good
		for _, p := range paths {
			if info, err := os.Stat(p); err == nil {
				found, times[p] = append(found, p), info.ModTime()
			}
		}
	}
	slices.SortStableFunc(found, func(a, b string) int { return times[b].Compare(times[a]) })
	return found
}

// caches are this user's and, under sudo, that of the user who called it.
func caches() []string {
	var dirs []string
	if dir, err := os.UserCacheDir(); err == nil {
		dirs = append(dirs, dir)
	}
	if name := os.Getenv("SUDO_USER"); name != "" && os.Geteuid() == 0 {
		if u, err := user.Lookup(name); err == nil {
			dirs = append(dirs, filepath.Join(u.HomeDir, ".cache"))
		}
	}
	return slices.Compact(dirs)
}

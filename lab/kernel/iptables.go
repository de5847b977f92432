package kernel

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// chooseIptables makes the plain names of iptables mean its legacy variant in a kernel in which the nft one cannot work
// (Debian's has nf_tables, but none of its families). It changes the layer in memory, not the machine's alternatives.
func chooseIptables() error {
	try := exec.Command("iptables-nft", "-t", "nat", "-N", "PROXYLAB")
	try.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET} // and the chain is gone with the network
	if try.Run() == nil {
		return nil
	}
	var errs []error
	for _, family := range []string{"iptables", "ip6tables"} {
		for _, verb := range []string{"", "-save", "-restore"} {
			legacy, err := exec.LookPath(family + "-legacy" + verb)
			if err != nil { // whoever needs it says that it is missing
				continue
			}
			plain := filepath.Join(filepath.Dir(legacy), family+verb)
			if to, err := filepath.EvalSymlinks(plain); err == nil && strings.Contains(to, "legacy") {
				continue
			}
			if err := os.Remove(plain); err != nil && !errors.Is(err, os.ErrNotExist) {
				errs = append(errs, err)
				continue
			}
			errs = append(errs, os.Symlink(legacy, plain))
		}
	}
	return errors.Join(errs...)
}

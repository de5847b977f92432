package lab

import (
	"os"
	"time"
)

// KernelVar is in the environment of all that runs inside a throw-away kernel (see lab/kernel).
const KernelVar = "PROXYLAB_KERNEL"

// Patience is the time to wait for what must have come after d on an ordinary kernel. A User Mode Linux kernel has one
// processor and slow system calls, and on a busy machine everything in it takes several times as long.
func Patience(d time.Duration) time.Duration {
	if os.Getenv(KernelVar) != "" {
		return 5 * d
	}
	return d
}

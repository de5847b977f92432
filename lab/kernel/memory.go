package kernel

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"proxylab/lab"
)

// memoryDirs is where a kernel's memory may live: on a tmpfs, or every page that it writes would go to a disk.
var memoryDirs = []string{"/dev/shm", "/tmp", "/run", "/var/tmp"}

// memoryDir chooses a directory whose file system is a tmpfs that lets files be mapped executable and has room for so
// many bytes. The file in it has no name, and goes away with the kernel.
func memoryDir(dirs []string, bytes int64) (string, error) {
	var why []string
	for _, dir := range dirs {
		var fs unix.Statfs_t
		if err := unix.Statfs(dir, &fs); err != nil {
			why = append(why, fmt.Sprintf("%s: %v", dir, err))
			continue
		}
		free := int64(fs.Bavail) * fs.Bsize
		switch {
		case fs.Type != unix.TMPFS_MAGIC:
			why = append(why, dir+" is no tmpfs")
		case fs.Flags&unix.ST_NOEXEC != 0:
			why = append(why, dir+" is mounted noexec")
		case fs.Flags&unix.ST_RDONLY != 0:
			why = append(why, dir+" is mounted read-only")
		case free < bytes:
			why = append(why, fmt.Sprintf("%s has %d MiB free", dir, free>>20))
		default:
			return dir, nil
		}
	}
	return "", lab.Missing{
		What:   fmt.Sprintf("nowhere to keep the %d MiB of a User Mode Linux kernel's memory: %s", bytes>>20, strings.Join(why, ", ")),
		Remedy: fmt.Sprintf("mount -o remount,exec,size=%dM /dev/shm; in a container: --shm-size=%dm", bytes>>20+64, bytes>>20+64),
	}
}

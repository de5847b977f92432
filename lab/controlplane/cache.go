package controlplane

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/version"
	"golang.org/x/sys/unix"

	"proxylab/lab/procs"
)

// backgroundFormat counts what the key of the cache does not see: change it when the objects are made differently.
const backgroundFormat = 2

// manifestFile completes a cache entry: it says what all the other files hold.
const manifestFile = "manifest.json"

// backgroundKey names what is in a populated data directory. Nothing in there belongs to one lab: no certificate, no
// token, no lease.
func backgroundKey(b Background, services netip.Prefix) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "format %d, Kubernetes %s, etcd %s, %d Services of %d endpoints in %s",
		backgroundFormat, kubernetesVersion(), version.Version, b.Services, b.EndpointsPerService, services))
	return hex.EncodeToString(sum[:12])
}

// ensureData makes etcd's data directory, unless it is there: empty, or with the background in it.
func (s *starter) ensureData(ctx context.Context) error {
	if s.Background.Services == 0 {
		return nil // etcd makes it
	}
	if _, err := os.Stat(s.etcdData()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	services, _ := ipv4Range(s.ServiceCIDRs) // validated
	entry := filepath.Join(s.CacheDir, "background", backgroundKey(s.Background, services))
	if err := os.MkdirAll(filepath.Dir(entry), 0o700); err != nil {
		return fmt.Errorf("cache of background Services: %w", err)
	}
	// Two runs that want the same make it once.
	unlock, err := lockFile(ctx, entry+".lock")
	if err != nil {
		return fmt.Errorf("cache of background Services: %w", err)
	}
	defer unlock()
	if err := checkEntry(entry); err != nil {
		if !errors.Is(err, errNoEntry) {
			s.Log.Warn("cached background Services are broken and will be made again", "entry", entry, "error", err)
		}
		if err := s.makeEntry(ctx, entry, services); err != nil {
			return fmt.Errorf("make background Services: %w", err)
		}
	}
	tmp := s.etcdData() + ".new"
	if err := os.RemoveAll(tmp); err != nil {
		return err
	}
	if err := copyTree(entry, tmp); err != nil {
		return fmt.Errorf("copy background Services from %s: %w", entry, err)
	}
	return os.Rename(tmp, s.etcdData())
}

// makeEntry makes a cache entry beside its place and moves it there.
func (s *starter) makeEntry(ctx context.Context, entry string, services netip.Prefix) error {
	begin := time.Now()
	tmp := entry + ".new"
	if err := errors.Join(os.RemoveAll(tmp), os.RemoveAll(entry)); err != nil {
		return err
	}
	s.Log.Info("making background Services, once for this machine", "services", s.Background.Services, "endpoints", s.Background.EndpointsPerService)
	log, err := os.Create(s.log(backgroundPart))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, s.Executable, "component", backgroundPart, "--data", tmp, "--service-range", services.String(),
		"--services", strconv.Itoa(s.Background.Services), "--endpoints", strconv.Itoa(s.Background.EndpointsPerService))
	cmd.Stdout, cmd.Stderr = log, log
	if err := procs.Start(procs.Spec{Lab: s.Lab, Part: backgroundPart, Cmd: cmd}); err != nil {
		return err
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%v: %w%s", cmd.Args, err, s.tail(backgroundPart))
	}
	if err := writeManifest(tmp); err != nil {
		return err
	}
	if err := os.Rename(tmp, entry); err != nil {
		return err
	}
	s.Log.Info("made background Services", "entry", entry, "seconds", time.Since(begin).Seconds())
	return nil
}

// errNoEntry: nothing in the cache, which is no cause for alarm.
var errNoEntry = errors.New("no such entry")

// checkEntry compares a cache entry with its manifest.
func checkEntry(entry string) error {
	if _, err := os.Stat(entry); errors.Is(err, fs.ErrNotExist) {
		return errNoEntry
	}
	b, err := os.ReadFile(filepath.Join(entry, manifestFile))
	if err != nil {
		return fmt.Errorf("no manifest: %w", err)
	}
	var want map[string]string
	if err := json.Unmarshal(b, &want); err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	have, err := sums(entry)
	if err != nil {
		return fmt.Errorf("read entry: %w", err)
	}
	if len(have) != len(want) || len(want) == 0 {
		return fmt.Errorf("%d files instead of %d", len(have), len(want))
	}
	for name, sum := range want {
		if have[name] != sum {
			return fmt.Errorf("file %s has changed", name)
		}
	}
	return nil
}

func writeManifest(dir string) error {
	all, err := sums(dir)
	if err != nil {
		return err
	}
	b, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, manifestFile), b)
}

// sums are the checksums of the files below a directory, the manifest aside.
func sums(dir string) (map[string]string, error) {
	all := map[string]string{}
	err := eachFile(dir, func(name string, _ fs.DirEntry) error {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		defer f.Close()
		h := sha256.New()
		if _, err := io.Copy(h, f); err != nil {
			return err
		}
		all[name] = hex.EncodeToString(h.Sum(nil))
		return nil
	})
	return all, err
}

// eachFile visits the files below a directory, the manifest aside.
func eachFile(dir string, visit func(name string, d fs.DirEntry) error) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || name == manifestFile {
			return err
		}
		if !d.Type().IsRegular() {
			return fmt.Errorf("%s is not a file", path)
		}
		return visit(name, d)
	})
}

// copyTree copies the files of a cache entry, without copying their blocks where the file system can share them.
func copyTree(from, to string) error {
	return eachFile(from, func(name string, _ fs.DirEntry) error {
		dst := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(dst), 0o700); err != nil {
			return err
		}
		in, err := os.Open(filepath.Join(from, name))
		if err != nil {
			return err
		}
		defer in.Close()
		out, err := os.OpenFile(dst, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		if err := unix.IoctlFileClone(int(out.Fd()), int(in.Fd())); err != nil {
			_, err = io.Copy(out, in) // in the kernel, by copy_file_range
			return errors.Join(err, out.Close())
		}
		return out.Close()
	})
}

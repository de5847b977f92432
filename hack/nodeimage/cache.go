package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// partsCache keeps what takes long to make, each part in a directory NAME-KEY.
type partsCache struct{ dir string }

func openCache() (partsCache, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return partsCache{}, err
	}
	dir := filepath.Join(base, "proxylab", "nodeimage")
	return partsCache{dir}, os.MkdirAll(dir, 0o755)
}

// part returns the directory of the part, which build fills where it is not there. Another key's directory of the same
// name is older and is removed then. A build that fails or is interrupted leaves nothing.
func (c partsCache) part(ctx context.Context, name, key string, build func(ctx context.Context, dir string) error) (string, error) {
	done := filepath.Join(c.dir, name+"-"+key)
	if _, err := os.Stat(done); err == nil {
		return done, nil
	}
	started := time.Now()
	slog.Info("building", "part", name)
	work, err := os.MkdirTemp(c.dir, ".build-"+name+"-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	if err := build(ctx, work); err != nil {
		return "", fmt.Errorf("building the part %q: %w", name, err)
	}
	if err := os.Chmod(work, 0o755); err != nil {
		return "", err
	}
	if err := os.Rename(work, done); err != nil {
		if _, gone := os.Stat(done); gone != nil {
			return "", err
		}
		// Another one that was faster has built the same.
	}
	old, err := filepath.Glob(filepath.Join(c.dir, name+"-*"))
	if err != nil {
		return "", err
	}
	for _, dir := range old {
		if dir != done {
			if err := os.RemoveAll(dir); err != nil {
				return "", err
			}
		}
	}
	slog.Info("built", "part", name, "took", time.Since(started).Round(time.Second))
	return done, nil
}

// keys say what each part is made from.
type keys struct{ base, components, image string }

// newKeys hashes the sources in the working directory, which is this program's own.
func newKeys(ctx context.Context) (keys, error) {
	version, err := output(ctx, "go", "env", "GOVERSION", "GOARCH")
	if err != nil {
		return keys{}, err
	}
	base, err := hash(runtime.GOARCH, "base.go", "base.sh")
	if err != nil {
		return keys{}, err
	}
	components, err := hash(base+version, "go.mod", "go.sum", "components.go", "images.go", "closure.go", "containerd.go",
		"containerd.sh", "coredns", "crictl", "pause", "podnet", "proxystart")
	if err != nil {
		return keys{}, err
	}
	image, err := hash(components, ".")
	return keys{base, components, image}, err
}

// hash returns the first twelve digits over the salt and the files, and those in the directories among them.
func hash(salt string, paths ...string) (string, error) {
	var files []string
	for _, path := range paths {
		err := filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() && !strings.HasSuffix(file, "_test.go") {
				files = append(files, file)
			}
			return err
		})
		if err != nil {
			return "", fmt.Errorf("reading this program's sources: %w", err)
		}
	}
	slices.Sort(files)
	sum := sha256.New()
	fmt.Fprintln(sum, salt)
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(sum, file, len(content))
		sum.Write(content)
	}
	return hex.EncodeToString(sum.Sum(nil))[:12], nil
}

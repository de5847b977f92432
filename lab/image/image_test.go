package image

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// An archive can be read back by each of its tags, holds the files, and is the same each time.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "program")
	if err := os.WriteFile(source, bytes.Repeat([]byte("x"), 1000), 0o755); err != nil {
		t.Fatal(err)
	}
	files := []File{{Path: "/usr/bin/program", Source: source}, {Path: "/bin/alias", Link: "/usr/bin/program"}}
	var digests []string
	for _, archive := range []string{"a.tar", "b.tar"} {
		archive = filepath.Join(dir, archive)
		if err := Write(archive, files, Image{"docker.io/proxylab/echo:latest", []string{"/p", "echo"}}, Image{"docker.io/proxylab/client:latest", []string{"/p"}}); err != nil {
			t.Fatal(err)
		}
		tag, err := name.NewTag("docker.io/proxylab/echo:latest")
		if err != nil {
			t.Fatal(err)
		}
		image, err := tarball.ImageFromPath(archive, &tag)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil || !slices.Equal(config.Config.Entrypoint, []string{"/p", "echo"}) || config.OS != "linux" {
			t.Errorf("%+v, %v", config, err)
		}
		digest, err := image.Digest()
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, digest.String())
		if got, want := strings.Join(contents(t, mutate.Extract(image)), " "), "bin bin/alias=/usr/bin/program usr usr/bin usr/bin/program:1000"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if digests[0] != digests[1] {
		t.Errorf("the same files, and two images: %v", digests)
	}
}

func contents(t *testing.T, r io.ReadCloser) (all []string) {
	t.Helper()
	defer r.Close()
	for reader := tar.NewReader(r); ; {
		h, err := reader.Next()
		if err == io.EOF {
			slices.Sort(all)
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		entry := h.Name
		switch h.Typeflag {
		case tar.TypeSymlink:
			entry += "=" + h.Linkname
		case tar.TypeReg:
			n, err := io.Copy(io.Discard, reader)
			if err != nil || n != 1000 {
				t.Errorf("%s: %d bytes, %v", h.Name, n, err)
			}
			entry += ":1000"
		}
		all = append(all, entry)
	}
}

func TestWriteWhatIsNotThere(t *testing.T) {
	err := Write(filepath.Join(t.TempDir(), "a.tar"), []File{{Path: "/x", Source: "/nowhere"}}, Image{Tag: "x:y"})
	if err == nil || !strings.Contains(err.Error(), "/nowhere") {
		t.Errorf("%v", err)
	}
}

// What Tools collects runs where nothing else is.
func TestToolsRunByThemselves(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("to change the root directory needs root")
	}
	if _, err := exec.LookPath("iptables-nft"); err != nil {
		t.Skip("iptables is not installed (apt-get install iptables)")
	}
	files, absent, err := Tools("iptables-nft", "no-such-program", "sh")
	if err != nil || !slices.Equal(absent, []string{"no-such-program"}) {
		t.Fatalf("%v, %v", absent, err)
	}
	root := t.TempDir()
	for _, f := range files {
		to := filepath.Join(root, f.Path)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if f.Link != "" {
			err = os.Symlink(f.Link, to)
		} else if data, readErr := os.ReadFile(f.Source); readErr != nil {
			err = readErr
		} else {
			err = os.WriteFile(to, data, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// A match is an extension, which iptables loads.
	out, err := exec.Command("chroot", root, "/usr/sbin/iptables-nft", "-m", "statistic", "--help").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--probability") {
		t.Errorf("%v: %s", err, out)
	}
}

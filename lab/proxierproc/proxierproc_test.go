package proxierproc_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"proxylab/lab"
	"proxylab/lab/proxierproc"
)

// What a proxier was started with is read back from its process.
func TestSpecIsReadBack(t *testing.T) {
	want := lab.ProxierSpec{Name: "ipvs", Backend: "legacy", MinSyncPeriod: time.Second, SyncPeriod: time.Minute,
		Scheduler: "wlc", Fallback: "iptables"}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "proxier"), []byte("read x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", proxierproc.Args("node1", "kubeconfig", want)...) // a script with that command line
	cmd.Dir = dir
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	got, ok := proxierproc.SpecOf(cmd.Process.Pid)
	if !ok || got != want {
		t.Errorf("%+v, %v, want %+v", got, ok, want)
	}
	_ = stdin.Close()
	_ = cmd.Wait() // reading nothing is an error to the shell
}

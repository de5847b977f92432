package cloud

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestConfigFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "balancers.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("subnetId: s\ncreateMonitor: true\nclasses: {dmz: {floatingSubnet: dmz-*}}\n")
	c, err := ReadConfig(file)
	if err != nil {
		t.Fatal(err)
	}
	want := Config{SubnetID: "flag", CreateMonitor: true, Classes: map[string]Class{"dmz": {FloatingSubnet: "dmz-*"}}, Internal: true}
	if d := cmp.Diff(want, c.overriddenBy(Config{SubnetID: "flag", Internal: true})); d != "" {
		t.Error(d)
	}
	write("subnet: s\n")
	if _, err := ReadConfig(file); err == nil || !strings.Contains(err.Error(), `unknown field "subnet"`) {
		t.Errorf("%v", err)
	}
}

func TestCommand(t *testing.T) {
	cmd := Commands()[0]
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs([]string{"--kubeconfig", "/nowhere", "--octavia-endpoint", "http://127.0.0.1:1", "--subnet-id", "s"})
	if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "kubeconfig /nowhere") {
		t.Errorf("%v", err)
	}
	if !cmd.Hidden || cmd.Use != "cloud-controller-manager" {
		t.Error(cmd.Use)
	}
}

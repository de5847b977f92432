package conformance

import (
	"log/slog"
	"os"
	"strings"
	"testing"

	"proxylab/proxiers/conformance/bed"
	"proxylab/proxiers/iptables"
	"proxylab/proxiers/runner"
	"proxylab/proxiers/userspace"
)

// native are the proxiers under test, by their mode and back end.
func native() map[string]bed.Factory {
	all := map[string]bed.Factory{}
	for _, backend := range []string{"legacy", "nft"} {
		all["iptables/"+backend] = func(log *slog.Logger) (runner.Proxier, error) {
			return iptables.New(iptables.Options{Backend: backend, Log: log})
		}
		all["userspace/"+backend] = func(log *slog.Logger) (runner.Proxier, error) {
			return userspace.New(userspace.Options{Backend: backend, Log: log})
		}
	}
	return all
}

func TestMain(m *testing.M) { os.Exit(bed.Main(m, native())) }

func TestRows(t *testing.T) {
	for proxier := range native() {
		mode, backend, _ := strings.Cut(proxier, "/")
		for _, row := range Rows() {
			t.Run(proxier+"/"+row.Area+"/"+row.Name, func(t *testing.T) {
				if why := row.Except[mode]; why != "" {
					t.Skip(why)
				}
				for _, tool := range []string{"iptables-", "ip6tables-"} {
					if !installed(tool + backend) {
						t.Skip(tool + backend + " is not installed")
					}
				}
				t.Parallel()
				row.Run(NewNode(t, proxier))
			})
		}
	}
}

func TestRowsAreNamedOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Rows() {
		if r.Area == "" || r.Name == "" || r.Run == nil || seen[r.Name] {
			t.Errorf("row %q of area %q", r.Name, r.Area)
		}
		seen[r.Name] = true
	}
}

package controlplane

import (
	"log/slog"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
)

func prefixes(s ...string) []netip.Prefix {
	ps := make([]netip.Prefix, len(s))
	for i, p := range s {
		ps[i] = netip.MustParsePrefix(p)
	}
	return ps
}

func testConfig(t testing.TB, lab string) Config {
	return Config{
		Lab:          lab,
		Dir:          filepath.Join(t.TempDir(), "cp"),
		Address:      netip.MustParseAddr("10.10.0.1"),
		ServiceCIDRs: prefixes("10.96.0.0/16", "fd00:10:96::/112"),
		PodCIDRs:     prefixes("10.244.0.0/16", "fd00:10:244::/48"),
		CacheDir:     filepath.Join(t.TempDir(), "cache"),
		Log:          slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
}

func TestConfigDefaults(t *testing.T) {
	c, err := testConfig(t, "x").withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if c.NodePorts != (PortRange{30000, 32767}) || c.Executable == "" || c.Log == nil {
		t.Errorf("defaults are missing: %+v", c)
	}
}

func TestConfigMistakes(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Config)
		want   []string // all of them, at once
	}{
		"nothing at all": {
			func(c *Config) { *c = Config{} },
			[]string{"no name", "no directory", "address", "no service range"},
		},
		"long path": {
			func(c *Config) { c.Dir = "/" + strings.Repeat("x", 100) },
			[]string{"too long"},
		},
		"addresses": {
			func(c *Config) {
				c.Address = netip.MustParseAddr("127.0.0.1")
				c.ServiceCIDRs = prefixes("10.96.0.0/16", "10.97.0.0/16")
				c.PodCIDRs = []netip.Prefix{netip.MustParsePrefix("10.96.4.1/24")}
			},
			[]string{"loopback", "one for each IP family", "start of a range", "overlap"},
		},
		"address in service range": {
			func(c *Config) { c.Address = netip.MustParseAddr("10.96.3.1") },
			[]string{"lies in service range"},
		},
		"node ports": {
			func(c *Config) { c.NodePorts = PortRange{4000, 3000} },
			[]string{"4000-3000"},
		},
		"background does not fit": {
			func(c *Config) {
				c.ServiceCIDRs = prefixes("10.96.0.0/22")
				c.Background = Background{Services: 1000, EndpointsPerService: -1}
			},
			[]string{"do not fit", "-1 endpoints"},
		},
		"background without IPv4": {
			func(c *Config) {
				c.ServiceCIDRs = prefixes("fd00:10:96::/112")
				c.Background.Services = 1
			},
			[]string{"no IPv4 service range"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := testConfig(t, "x")
			tc.change(&c)
			_, err := c.withDefaults()
			if err == nil {
				t.Fatal("no error")
			}
			for _, w := range tc.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q is not in: %v", w, err)
				}
			}
		})
	}
}

func TestStateRoundTrip(t *testing.T) {
	c, err := testConfig(t, "x").withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	p := paths{c.Dir}
	if old, err := loadState(p); old != nil || err != nil {
		t.Fatalf("state of an empty directory: %v, %v", old, err)
	}
	st := newState(c)
	st.Port = 4711
	if err := st.save(p); err != nil {
		t.Fatal(err)
	}
	back, err := loadState(p)
	if err != nil {
		t.Fatal(err)
	}
	if err := back.mustEqual(newState(c)); err != nil {
		t.Errorf("the same settings are taken for others: %v", err)
	}
	if back.Port != 4711 {
		t.Errorf("port %d came back", back.Port)
	}
	c.Address = netip.MustParseAddr("10.10.0.2")
	c.Background.Services = 5
	err = back.mustEqual(newState(c))
	if err == nil || !strings.Contains(err.Error(), "10.10.0.2") || !strings.Contains(err.Error(), "Background") {
		t.Errorf("other settings: %v", err)
	}
}

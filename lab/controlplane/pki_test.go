package controlplane

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/netip"
	"os"
	"slices"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/keyutil"
)

func madePKI(t *testing.T) (paths, state) {
	t.Helper()
	c, err := testConfig(t, "x").withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	st := newState(c)
	st.Port = 40000
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := ensurePKI(paths{c.Dir}, st); err != nil {
		t.Fatal(err)
	}
	return paths{c.Dir}, st
}

func readCert(t *testing.T, file string) *x509.Certificate {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(b)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func TestCertificates(t *testing.T) {
	p, st := madePKI(t)
	roots := x509.NewCertPool()
	roots.AddCert(readCert(t, p.pki("ca.crt")))
	server := readCert(t, p.pki("apiserver.crt"))
	for _, name := range []string{"127.0.0.1", "::1", st.Address.String(), "10.96.0.1", "fd00:10:96::1", "localhost", "kubernetes.default.svc"} {
		if a, err := netip.ParseAddr(name); err == nil && a.Is6() {
			name = "[" + name + "]" // as a URL has it
		}
		if _, err := server.Verify(x509.VerifyOptions{Roots: roots, DNSName: name}); err != nil {
			t.Errorf("server as %s: %v", name, err)
		}
	}
	if _, err := server.Verify(x509.VerifyOptions{Roots: roots, DNSName: "example.org"}); err == nil {
		t.Error("the server may call itself anything")
	}
	clients := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if _, err := server.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: clients}); err == nil {
		t.Error("the server's certificate is good for a client")
	}
	for _, id := range identities() {
		c := readCert(t, p.pki(id.file+".crt"))
		if _, err := c.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: clients}); err != nil {
			t.Errorf("%s: %v", id.file, err)
		}
		if c.Subject.CommonName != id.user || !slices.Equal(c.Subject.Organization, id.groups) {
			t.Errorf("%s is %v", id.file, c.Subject)
		}
		if _, err := tls.LoadX509KeyPair(p.pki(id.file+".crt"), p.pki(id.file+".key")); err != nil {
			t.Errorf("%s: %v", id.file, err)
		}
	}
	if _, err := keyutil.PrivateKeyFromFile(p.pki("sa.key")); err != nil {
		t.Errorf("token signing key: %v", err)
	}
	if _, err := keyutil.PublicKeysFromFile(p.pki("sa.pub")); err != nil {
		t.Errorf("token checking key: %v", err)
	}
	if _, err := os.Stat(p.pki("ca.key")); err == nil {
		t.Error("the authority's key was kept")
	}
}

func TestPKIIsMadeOnceAndWhole(t *testing.T) {
	p, st := madePKI(t)
	before, err := os.ReadFile(p.pki("ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	if err := ensurePKI(p, st); err != nil {
		t.Fatal(err)
	}
	if after, _ := os.ReadFile(p.pki("ca.crt")); !bytes.Equal(before, after) {
		t.Error("made again")
	}
	// As after a crash in the middle: the directory under its other name.
	if err := os.Rename(p.pki(""), p.dir+"/pki.new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(p.dir + "/pki.new/sa.key"); err != nil {
		t.Fatal(err)
	}
	if err := ensurePKI(p, st); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(p.pki("sa.key")); err != nil {
		t.Error("half of the files are taken for all")
	}
}

func TestKubeconfigs(t *testing.T) {
	p, st := madePKI(t)
	if err := writeKubeconfigs(p, st); err != nil {
		t.Fatal(err)
	}
	stamp := map[string]os.FileInfo{}
	for _, id := range identities() {
		want := "https://127.0.0.1:40000"
		if id.inside {
			want = "https://10.10.0.1:6443"
		}
		c, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig(id.file))
		if err != nil {
			t.Fatal(err)
		}
		if c.Host != want {
			t.Errorf("%s talks to %s, not to %s", id.file, c.Host, want)
		}
		if _, err := tls.X509KeyPair(c.CertData, c.KeyData); err != nil || len(c.CAData) == 0 {
			t.Errorf("%s: %v, %d bytes of authority", id.file, err, len(c.CAData))
		}
		if stamp[id.file], err = os.Stat(p.kubeconfig(id.file)); err != nil || stamp[id.file].Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, mode %v", id.file, err, stamp[id.file].Mode())
		}
	}
	if err := writeKubeconfigs(p, st); err != nil {
		t.Fatal(err)
	}
	for name, before := range stamp {
		if after, err := os.Stat(p.kubeconfig(name)); err != nil || !os.SameFile(before, after) {
			t.Errorf("%s was written again: %v", name, err)
		}
	}
}

package controlplane

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"
)

// identity is somebody whom the API knows by a client certificate: the common name is the user, the organisations
// are the groups (https://kubernetes.io/docs/reference/access-authn-authz/authentication/#x509-client-certificates).
type identity struct {
	file   string
	user   string
	groups []string
	// inside: reaches the API at the lab's own address, not at the host's loopback.
	inside bool
}

// Kubeconfigs, by who uses them. The users system:kube-* have the rights that RBAC's built-in bindings give them;
// the node agent has all rights, as it acts for every node of the lab and for more than a kubelet does, and so have
// the controllers, which share one client here instead of a service account each.
var (
	admin             = identity{file: "admin", user: "proxylab:admin", groups: []string{"system:masters"}}
	agent             = identity{file: "agent", user: "proxylab:agent", groups: []string{"system:masters"}}
	node              = identity{file: "node", user: "proxylab:agent", groups: []string{"system:masters"}, inside: true}
	proxier           = identity{file: "proxier", user: "system:kube-proxy", inside: true}
	controllerManager = identity{file: kubeControllerManager, user: "system:kube-controller-manager", groups: []string{"system:masters"}}
	scheduler         = identity{file: kubeScheduler, user: "system:kube-scheduler"}
)

func identities() []identity {
	return []identity{admin, agent, node, proxier, controllerManager, scheduler}
}

const (
	validity  = 10 * 365 * 24 * time.Hour
	clockSkew = time.Hour
)

// ensurePKI makes the certificate authority of a lab, the certificates it signs and the key that signs service
// account tokens, unless they are there.
func ensurePKI(p paths, st state) error {
	dir := p.pki("")
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// All or nothing: a directory that is there is complete.
	tmp := filepath.Clean(dir) + ".new"
	if err := os.RemoveAll(tmp); err != nil {
		return err
	}
	files, err := makePKI(st)
	if err != nil {
		return fmt.Errorf("make certificates: %w", err)
	}
	for name, content := range files {
		if err := writeFile(filepath.Join(tmp, name), content); err != nil {
			return fmt.Errorf("write certificates: %w", err)
		}
	}
	return os.Rename(tmp, filepath.Clean(dir))
}

func makePKI(st state) (map[string][]byte, error) {
	files := map[string][]byte{}
	ca, err := newCA("proxylab " + st.Lab)
	if err != nil {
		return nil, err
	}
	files["ca.crt"] = pemOf("CERTIFICATE", ca.cert.Raw)
	names, ips := serverNames(st)
	err = ca.issue(files, "apiserver", &x509.Certificate{
		Subject:     pkix.Name{CommonName: kubeAPIServer},
		DNSNames:    names,
		IPAddresses: ips,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return nil, err
	}
	for _, id := range identities() {
		err := ca.issue(files, id.file, &x509.Certificate{
			Subject:     pkix.Name{CommonName: id.user, Organization: id.groups},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		})
		if err != nil {
			return nil, err
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	pub, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, err
	}
	files["sa.pub"] = pemOf("PUBLIC KEY", pub)
	files["sa.key"], err = pemKey(key)
	return files, err
}

// serverNames are what a client may call the API server: from the host, from the lab's network, and from a pod.
func serverNames(st state) (names []string, ips []net.IP) {
	names = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
	for _, a := range []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback(), st.Address} {
		ips = append(ips, a.AsSlice())
	}
	for _, r := range st.ServiceCIDRs {
		ips = append(ips, r.Addr().Next().AsSlice()) // the Service default/kubernetes has the first one
	}
	return names, ips
}

type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// newCA makes an authority whose key is never written anywhere: nothing more is signed once all are made.
func newCA(name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	tmpl := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := sign(tmpl, tmpl, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{cert: cert, key: key}, err
}

// issue adds name.crt and name.key to files.
func (a *authority) issue(files map[string][]byte, name string, tmpl *x509.Certificate) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	tmpl.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := sign(tmpl, a.cert, key.Public(), a.key)
	if err != nil {
		return fmt.Errorf("certificate %s: %w", name, err)
	}
	files[name+".crt"] = pemOf("CERTIFICATE", der)
	files[name+".key"], err = pemKey(key)
	return err
}

func sign(tmpl, parent *x509.Certificate, pub crypto.PublicKey, key crypto.Signer) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	tmpl.SerialNumber = serial
	tmpl.NotBefore = time.Now().Add(-clockSkew)
	tmpl.NotAfter = time.Now().Add(validity)
	return x509.CreateCertificate(rand.Reader, tmpl, parent, pub, key)
}

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func pemKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	return pemOf("EC PRIVATE KEY", der), err
}

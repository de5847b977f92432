package controlplane

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"strconv"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// writeKubeconfigs writes a self-contained kubeconfig for each identity. Those that are right already keep their
// time stamp.
func writeKubeconfigs(p paths, st state) error {
	ca, err := os.ReadFile(p.pki("ca.crt"))
	if err != nil {
		return fmt.Errorf("kubeconfigs: %w", err)
	}
	for _, id := range identities() {
		cert, err := os.ReadFile(p.pki(id.file + ".crt"))
		if err != nil {
			return fmt.Errorf("kubeconfig of %s: %w", id.file, err)
		}
		key, err := os.ReadFile(p.pki(id.file + ".key"))
		if err != nil {
			return fmt.Errorf("kubeconfig of %s: %w", id.file, err)
		}
		content, err := clientcmd.Write(kubeconfig(st, id, ca, cert, key))
		if err != nil {
			return fmt.Errorf("kubeconfig of %s: %w", id.file, err)
		}
		path := p.kubeconfig(id.file)
		if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, content) {
			continue
		}
		if err := writeFile(path, content); err != nil {
			return fmt.Errorf("kubeconfig of %s: %w", id.file, err)
		}
	}
	return nil
}

func kubeconfig(st state, id identity, ca, cert, key []byte) clientcmdapi.Config {
	name := "proxylab-" + st.Lab
	c := clientcmdapi.NewConfig()
	c.Clusters[name] = &clientcmdapi.Cluster{Server: st.server(id.inside), CertificateAuthorityData: ca}
	c.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}
	c.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: "default"}
	c.CurrentContext = name
	return *c
}

// server is the URL of the API, seen from inside the lab or from the host.
func (s state) server(inside bool) string {
	if inside {
		return "https://" + net.JoinHostPort(s.Address.String(), strconv.Itoa(labPort))
	}
	return "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(int(s.Port)))
}

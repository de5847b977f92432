package openstack_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"

	"proxylab/lab/lbaas/openstack"
)

// TestRestart keeps everything: networks, tokens and those that were ended, and the ids of what is there from the beginning.
func TestRestart(t *testing.T) {
	kept := &memory{}
	c, url := serve(t, openstack.Options{State: kept})
	ctx := t.Context()
	p, ended := login(t, url, "demo", "demo"), login(t, url, "demo", "demo")
	net := must[*networks.Network](t)(networks.Create(ctx, network(t, p), networks.CreateOpts{Name: "kept"}).Extract())
	if err := tokens.Revoke(ctx, identity(t, p), ended.TokenID).Err; err != nil {
		t.Fatal(err)
	}
	// What is on disk is enough: nothing is written in the end.
	for deadline := time.Now().Add(10 * time.Second); !bytes.Contains(func() []byte { b, _ := kept.Load(); return b }(), []byte("revoked")); {
		if time.Now().After(deadline) {
			t.Fatal("nothing was kept")
		}
		time.Sleep(time.Millisecond)
	}
	_ = c
	again, url2 := serve(t, openstack.Options{State: &memory{text: func() []byte { b, _ := kept.Load(); return b }()}})
	if who, ok := again.Authenticate(p.TokenID); !ok || who.UserName != "demo" {
		t.Error("a token is no longer good")
	}
	if _, ok := again.Authenticate(ended.TokenID); ok {
		t.Error("a token that was ended is good again")
	}
	demo := network(t, login(t, url2, "demo", "demo"))
	if got, err := networks.Get(ctx, demo, net.ID).Extract(); err != nil || got.Name != "kept" {
		t.Errorf("the network: %v %v", got, err)
	}
	pages, err := networks.List(demo, nil).AllPages(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if list, _ := networks.ExtractNetworks(pages); len(list) != 3 {
		t.Errorf("%d networks, want 3", len(list))
	}
}

package openstack

import (
	"net/http"
	"slices"
)

func (q *call) credential(it item) item {
	out := it.with(item{})
	delete(out, "secret")
	roles := []any{}
	for _, name := range it.texts("roles") {
		roles = append(roles, map[string]any{"id": stableHex("role", name), "name": name, "domain_id": nil})
	}
	out["roles"] = roles
	return out
}

func (k *keystone) credentials(q *call) error {
	if !q.mine("user", q.PathValue("id")) {
		return forbiddenAction("list_application_credentials")
	}
	out := []item{}
	for it := range k.c.tables["application_credential"].all {
		if name := q.URL.Query().Get("name"); it.text("user_id") == q.PathValue("id") && (name == "" || name == it.text("name")) {
			out = append(out, q.credential(it))
		}
	}
	return q.many("application_credentials", out)
}

func (k *keystone) addCredential(q *call) error {
	if q.PathValue("id") != q.who.UserID || q.who.ProjectID == "" || q.t.Cred != "" {
		return forbiddenAction("create_application_credential")
	}
	in, err := body(q.Request, "application_credential")
	if err != nil {
		return err
	}
	if in.text("name") == "" {
		return badRequest("'name' is a required property")
	}
	if len(k.c.tables["application_credential"].items) >= k.c.o.MaxItems {
		return &authProblem{http.StatusForbidden, "Unable to create additional application credentials, maximum is reached."}
	}
	roles := []any{}
	for _, r := range in.list("roles") {
		held, ok := k.c.named("role", r.text("id"), r.text("name"))
		if !ok || !slices.Contains(q.who.Roles, held.text("name")) {
			return badRequest("Invalid application credential: the role is not one of the user's in this project.")
		}
		roles = append(roles, held.text("name"))
	}
	if len(roles) == 0 {
		for _, r := range q.who.Roles {
			roles = append(roles, r)
		}
	}
	secret := in.text("secret")
	if secret == "" {
		secret = newHex() + newHex()
	}
	it := item{"id": newHex(), "name": in.text("name"), "description": in.text("description"), "user_id": q.who.UserID, "project_id": q.who.ProjectID,
		"roles": roles, "expires_at": in["expires_at"], "unrestricted": in.flag("unrestricted"), "secret": hash(secret), "system": nil}
	k.c.tables["application_credential"].put(it)
	k.c.changed()
	reply(q.w, http.StatusCreated, map[string]any{"application_credential": q.credential(it).with(item{"secret": secret})})
	return nil
}

// ownCredential finds the one of a path.
func (k *keystone) ownCredential(q *call) (item, error) {
	it, ok := k.c.tables["application_credential"].items[q.PathValue("cred")]
	if !ok || it.text("user_id") != q.PathValue("id") || !q.mine("user", q.PathValue("id")) {
		return nil, noSuch("application credential", q.PathValue("cred"))
	}
	return it, nil
}

func (k *keystone) credential(q *call) error {
	it, err := k.ownCredential(q)
	if err == nil {
		reply(q.w, http.StatusOK, map[string]any{"application_credential": q.credential(it)})
	}
	return err
}

func (k *keystone) dropCredential(q *call) error {
	it, err := k.ownCredential(q)
	if err == nil {
		k.c.tables["application_credential"].remove(it.text("id"))
		k.c.changed()
		reply(q.w, http.StatusNoContent, nil)
	}
	return err
}

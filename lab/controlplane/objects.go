package controlplane

import (
	"bytes"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

// stored is an object as it lies in etcd.
type stored struct {
	key   string
	value []byte
}

// object is what any typed API object is.
type object interface {
	runtime.Object
	metav1.Object
}

// encoder turns API objects into what kube-apiserver would have stored, had they been created through it: with
// defaults filled in, an identity and a creation time, in protobuf of the version that it stores
// (https://kubernetes.io/docs/reference/using-api/api-concepts/#protobuf-encoding).
type encoder struct {
	serializer *protobuf.Serializer
	now        metav1.Time
}

func newEncoder(now metav1.Time) encoder {
	return encoder{serializer: protobuf.NewSerializer(legacyscheme.Scheme, legacyscheme.Scheme), now: now}
}

// encode stores an object below the resource's prefix. It changes the object.
func (e encoder) encode(resource string, obj object) (stored, error) {
	key := "/registry/" + resource + "/"
	if ns := obj.GetNamespace(); ns != "" {
		key += ns + "/"
	}
	key += obj.GetName()
	legacyscheme.Scheme.Default(obj)
	obj.SetUID(uuid.NewUUID())
	obj.SetCreationTimestamp(e.now)
	kinds, _, err := legacyscheme.Scheme.ObjectKinds(obj)
	if err != nil {
		return stored{}, fmt.Errorf("encode %s: %w", key, err)
	}
	obj.GetObjectKind().SetGroupVersionKind(kinds[0])
	var buf bytes.Buffer
	if err := e.serializer.Encode(obj, &buf); err != nil {
		return stored{}, fmt.Errorf("encode %s: %w", key, err)
	}
	return stored{key, buf.Bytes()}, nil
}

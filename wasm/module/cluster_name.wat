;; A filter for stock Envoy: says the route's cluster where Higress' SDK looks for it.
;;
;; Higress' gateway has a property `cluster_name`, which the SDK's RouteCluster reads. Stock Envoy has
;; the same value as its attribute `xds.cluster_name`. Put before the plugin, this filter copies the
;; one to the other on each request. It has no configuration and no state, so it cannot disagree with
;; the route. Without the attribute nothing is set, and the plugin says that itself.
(module
  (import "env" "proxy_get_property"
    (func $get_property (param $path i32) (param $path_size i32)
      (param $to_pointer i32) (param $to_size i32) (result i32)))
  (import "env" "proxy_set_property"
    (func $set_property (param $key i32) (param $key_size i32)
      (param $value i32) (param $value_size i32) (result i32)))

  ;; 16: the attribute's path, its parts apart by a zero byte; its last 12 bytes are the property's
  ;; name too. 32, 36: where the host says where the value is, and how long. 64 on: the value.
  (memory (export "memory") 1 1)
  (data (i32.const 16) "xds\00cluster_name")

  ;; This export is how a host recognises a proxy-Wasm module, and which ABI it speaks.
  (func (export "proxy_abi_version_0_2_1"))

  ;; One value is asked for at a time and used at once, so it always goes to the same place. What
  ;; does not fit into the page is refused with 0.
  (func (export "proxy_on_memory_allocate") (param $size i32) (result i32)
    (select (i32.const 0) (i32.const 64) (i32.gt_u (local.get $size) (i32.const 65472))))

  (func (export "proxy_on_context_create") (param $context i32) (param $parent i32))

  (func (export "proxy_on_vm_start") (param $root i32) (param $size i32) (result i32)
    (i32.const 1))

  (func (export "proxy_on_configure") (param $root i32) (param $size i32) (result i32)
    (i32.const 1))

  ;; Copies the attribute to the property. Always continues (0).
  (func (export "proxy_on_request_headers")
    (param $context i32) (param $headers i32) (param $end_of_stream i32) (result i32)
    (if (i32.eqz (call $get_property
          (i32.const 16) (i32.const 16) (i32.const 32) (i32.const 36)))
      (then
        (drop (call $set_property
          (i32.const 20) (i32.const 12) (i32.load (i32.const 32)) (i32.load (i32.const 36))))))
    (i32.const 0))

  ;; Nothing is left to wait for.
  (func (export "proxy_on_done") (param $context i32) (result i32)
    (i32.const 1)))

// The common base of all carriers over links.
#pragma once
#include <functional>

#include "ring/run/carrier.hpp"

namespace anello::run {

class LinkCarrier : public Carrier {
 public:
  // Calls want(link, wanted) for every link on which the next pass depends.
  using Want = std::function<void(link::Link&, link::Wanted)>;
  virtual void each_wanted(const Want& want) const = 0;

  bool want(link::Waiter& waiter) final;
  std::vector<int> awaited() const final;
  void give_up() final;

 protected:
  ~LinkCarrier() = default;
  void use(std::span<link::Link* const> links) { links_ = links; }  // by rank
  static Moved moved_by(const plan::Plan& plan, std::uint32_t wire_shift) {
    return {plan.sent_elems << wire_shift, plan.received_elems << wire_shift};
  }

 private:
  std::span<link::Link* const> links_;
};

}  // namespace anello::run
